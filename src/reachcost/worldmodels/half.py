"""Predicting in half precision: for devices that are faster at it. Latents and costs stay in single precision."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from reachcost.worldmodels.jepa import JepaWorldModel, Parts


def halved(model: JepaWorldModel) -> JepaWorldModel:
    """The same model, whose rollouts compute in half precision; it encodes alike.

    Faster where a device is, which few processors are. `reachcost check --half` tells how much plans change.

    >>> from reachcost import load_world_model
    >>> halved(load_world_model("lewm-tworoom-3072")).latent_dim
    192
    """
    half = copy.copy(model)
    half.predicting = HalfParts(model.parts)
    return half


class HalfParts:
    """The predicting parts of a model, with their matrix products in bfloat16; see `reachcost.worldmodels.jepa.Parts`.

    Args:
        parts: Those of a frozen model; they are not changed.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts, self.history = parts, parts.history

    def embed_actions(self, blocks: Tensor) -> Sequence[Tensor]:
        """What each layer of the predictor takes of action blocks [..., A] -> [..., E]."""
        with self._half():
            return self.parts.embed_actions(blocks)

    def predict(
        self, window: Sequence[Tensor], actions: Sequence[Tensor], kept: Any = None
    ) -> tuple[Tensor, Any | None]:
        """What follows a window of latents [N, D], in single precision."""
        with self._half():
            following, kept = self.parts.predict(window, actions, kept)
        return following.float(), kept

    def _half(self) -> torch.autocast:
        return torch.autocast(self.parts.device.type, torch.bfloat16)
