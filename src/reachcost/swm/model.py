"""A world model of reachcost with the interface of stable-worldmodel: `encode`, `rollout`, and, for 0.1.1, `get_cost`.

Shapes: B episodes, S candidates, H action blocks of A numbers, T frames, D latent size.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.data.actions import ActionBlocks
from reachcost.errors import ReachcostError
from reachcost.swm.frozen import EncodedFrames
from reachcost.worldmodels.jepa import JepaWorldModel, rolled_out


class SwmModel(nn.Module):
    """A frozen copy of a model of `load_world_model` as a model of stable-worldmodel, in eval mode and float32.

    It reads the frames of a `World` directly (a policy needs no `transform`). Candidates are standardised action
    blocks, for which a policy needs `process={"action": Standardiser(model.actions)}`.

    >>> from reachcost import load_world_model
    >>> model = SwmModel(load_world_model("lewm-tworoom-3072"))
    >>> frames = torch.zeros(2, 4, 1, 64, 64, 3, dtype=torch.uint8)
    >>> model.get_cost({"pixels": frames, "goal": frames}, torch.zeros(2, 4, 5, 10)).shape
    torch.Size([2, 4])
    """

    low: Tensor
    high: Tensor

    def __init__(self, model: JepaWorldModel) -> None:
        super().__init__()
        if not isinstance(model, JepaWorldModel):
            raise ReachcostError(f"the model is a {type(model).__name__}: give what rc.load_world_model returns")
        if model.half:
            raise ReachcostError("their solvers do not use half precision: give the model that was halved")
        self.source, self.parts = model, copy.deepcopy(model.parts)
        self._latents = EncodedFrames()
        low, high = model.actions.bounds()
        self.register_buffer("low", low.to(model.device))
        self.register_buffer("high", high.to(model.device))
        self.eval()

    def train(self, mode: bool = True) -> SwmModel:
        """Stay in eval mode."""
        return super().train(False)

    def encode(self, info: dict[str, Any]) -> dict[str, Any]:
        """Add `emb` [N, T, D] to frames `pixels` uint8 [N, T, height, width, 3] (or [N, T, 3, height, width])."""
        pixels = _require_frames(info, "pixels", 5)
        if next(self.parts.parameters()).dtype != torch.float32:
            raise ReachcostError("this model computes in float32: undo .half(), .bfloat16() or .double()")
        self._latents.renew(self.parts, pixels)
        return {**info, "emb": self._latents.of(pixels, self._encode)}

    def _encode(self, pixels: Tensor) -> Tensor:
        if pixels.shape[-1] != 3:
            pixels = pixels.movedim(-3, -1)
        inputs = self.parts.inputs({"pixels": pixels.flatten(0, 1).cpu().numpy()})
        return self.parts.embed(inputs.to(self.low.device)).unflatten(0, pixels.shape[:2])

    def rollout(self, info: dict[str, Any], action_sequence: Tensor) -> dict[str, Any]:
        """Add `predicted_emb` [B, S, T + H, D]: latents of the frames, then after each block of [B, S, H, A].

        With `action_history` [B, S, T - 1, A] of git main all T frames are read, otherwise only the newest.
        """
        self._require_blocks(action_sequence)
        pixels, blocks = _require_frames(info, "pixels", 6), action_sequence
        if "action_history" in info:
            blocks = torch.cat([info["action_history"].to(blocks), blocks], dim=2)
        else:
            pixels = pixels[:, :, -1:]
        context = self.encode({"pixels": pixels[:, 0]})["emb"]
        blocks = blocks.to(context)
        if self.source.clamp:
            blocks = torch.minimum(torch.maximum(blocks, self.low), self.high)
        return {**info, "predicted_emb": rolled_out(self.parts, context, blocks, full_path=True)}

    def criterion(self, info_dict: dict[str, Any], action_candidates: Tensor | None = None) -> Tensor:
        """Latent distance of the last predicted step to the goal [B, S], as in their models."""
        terminal = info_dict["predicted_emb"][:, :, -1]
        return (terminal - goal_of(info_dict.get("goal_emb"), terminal)[:, None]).square().sum(-1)

    def get_cost(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """Latent distance of candidates [B, S, H, A] to the goal [B, S]."""
        goal = self.encode({"pixels": _require_frames(info_dict, "goal", 6)[:, 0]})["emb"]
        return self.criterion({**self.rollout(info_dict, action_candidates), "goal_emb": goal})

    def _require_blocks(self, candidates: Tensor) -> None:
        size = self.source.action_dim
        if candidates.ndim != 4 or candidates.shape[3] != size:
            raise ReachcostError(
                f"action candidates are {tuple(candidates.shape)}: give [B, S, H, A = {size}], with "
                f"PlanConfig(..., action_block={self.source.actions.length})"
            )


class Standardiser:
    """The `process` of a policy: standardises actions by the logs of a model.

    >>> blocks = ActionBlocks(mean=(0.0, 1.0), std=(1.0, 2.0), low=(-1.0, -1.0), high=(1.0, 1.0), length=5)
    >>> Standardiser(blocks).inverse_transform(np.array([0.5, 0.5])).tolist()
    [0.5, 2.0]
    """

    def __init__(self, blocks: ActionBlocks) -> None:
        self.mean, self.std = np.array(blocks.mean, np.float32), np.array(blocks.std, np.float32)

    def transform(self, actions: np.ndarray) -> np.ndarray:
        """Actions [..., a] -> standardised."""
        return (actions - self.mean) / self.std

    def inverse_transform(self, actions: np.ndarray) -> np.ndarray:
        """Standardised [..., a] -> actions."""
        return actions * self.std + self.mean


def goal_of(goal: Tensor | None, terminal: Tensor) -> Tensor:
    """Return goal latents [B, D] for terminal [B, S, D], from [B, T, D] or [B, S, T, D]; without gradient."""
    batch, _, size = terminal.shape
    if goal is None or goal.ndim not in (3, 4) or len(goal) != batch or goal.shape[-1] != size:
        found = "missing" if goal is None else tuple(goal.shape)
        raise ReachcostError(f"goal_emb is {found}: give latents [B = {batch}, frames, D = {size}]")
    return (goal[:, -1] if goal.ndim == 3 else goal[:, 0, -1]).detach()


def _require_frames(info: dict[str, Any], key: str, dimensions: int) -> Tensor:
    found = info.get(key)
    if not isinstance(found, Tensor):
        raise ReachcostError(f"the info dictionary has no {key!r}: plan in a World with goals, see World.evaluate")
    if found.dtype != torch.uint8 or found.ndim != dimensions:
        raise ReachcostError(
            f"{key} are {found.dtype} {tuple(found.shape)}: give uint8 frames [..., T, height, width, 3] as rendered, "
            "without the policy's transform"
        )
    return found
