"""Predicting in half precision: for devices that are faster at it. Latents and costs stay in single precision."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from reachcost.errors import ReachcostError
from reachcost.worldmodels.jepa import JepaWorldModel, Parts

_TRIAL = """
import torch

with torch.autocast("cpu", torch.bfloat16):
    for rows in (1, 64, 3000):
        torch.nn.functional.linear(torch.ones(rows, 192), torch.ones(768, 192))
    heads = torch.ones(64, 16, 3, 64)
    torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    torch.ones(64, 192, 10) @ torch.ones(64, 10, 192)
"""
"""Products of the shapes that world models use, for a process that may die of them."""


def halved(model: JepaWorldModel) -> JepaWorldModel:
    """Return the same model with rollouts in half precision. The encoder stays in single precision.

    Half precision is faster on most GPUs and slower on most CPUs. `reachcost check --half` reports how much plans
    change. On a CPU, a separate process tries half precision first, because some CPUs advertise instructions that
    end the process.

    >>> from reachcost import load_world_model
    >>> model = load_world_model("lewm-tworoom-3072")
    >>> (halved(model) if half_precision_runs() else model).latent_dim
    192
    """
    if model.parts.device.type == "cpu" and not half_precision_runs():
        raise ReachcostError("half precision fails on this CPU: use the model in single precision, or a GPU")
    half = copy.copy(model)
    half.predicting = HalfParts(model.parts)
    return half


@cache
def half_precision_runs() -> bool:
    """Whether a process on this CPU survives products in half precision. It takes seconds, once a process."""
    return subprocess.run([sys.executable, "-c", _TRIAL], capture_output=True, check=False).returncode == 0


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
