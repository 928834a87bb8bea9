"""A world model of ours with the interface of stable-worldmodel 0.1.1: `encode`, `rollout`, `criterion`, `get_cost`.

Shapes: B episodes, S candidates, H action blocks of A numbers, T frames, D latent size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.errors import ReachcostError
from reachcost.observations import frames
from reachcost.worldmodels.actions import ActionBlocks
from reachcost.worldmodels.jepa import JepaWorldModel


class SwmModel(nn.Module):
    """One of our models as one of theirs.

    It reads the frames of a `World` as they come (a policy needs no `transform`) and plans from the newest of them.
    Candidates are action blocks in the standardised coordinates of the logs, for which a policy needs a `process`:
    `reachcost.swm.Standardiser(model.actions)`.

    Args:
        model: A bundled model, one of `reachcost train-model`, or a public checkpoint.

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
        self.source, self.parts = model, model.parts
        low, high = model.actions.bounds()
        self.register_buffer("low", low.to(model.device))
        self.register_buffer("high", high.to(model.device))

    def encode(self, info: dict[str, Any]) -> dict[str, Any]:
        """Add `emb` [N, T, D] to frames `pixels` uint8 [N, T, height, width, 3] (or [N, T, 3, height, width])."""
        pixels: Tensor = info["pixels"]
        if pixels.dtype != torch.uint8 or pixels.ndim != 5:
            raise ReachcostError(
                f"pixels are {pixels.dtype} {tuple(pixels.shape)}: give uint8 frames [N, T, height, width, 3] as the "
                "world draws them, without the policy's transform"
            )
        if pixels.shape[-1] != 3:
            pixels = pixels.movedim(-3, -1)
        small = frames({"pixels": pixels.flatten(0, 1).cpu().numpy()}, self.parts.pixels)
        latents = self.parts.embed(torch.from_numpy(small).contiguous().to(self.parts.device))
        return {**info, "emb": latents.unflatten(0, pixels.shape[:2])}

    def rollout(self, info: dict[str, Any], action_sequence: Tensor) -> dict[str, Any]:
        """Add `predicted_emb` [B, S, 1 + H, D]: the newest frame, then the latent after each block of [B, S, H, A]."""
        batch, samples = action_sequence.shape[:2]
        with torch.no_grad():
            start = self.encode({"pixels": info["pixels"][:, 0, -1:]})["emb"][:, 0]
        actions = action_sequence.to(start)
        if self.source.clamp:
            actions = torch.minimum(torch.maximum(actions, self.low), self.high)
        embedded = self.parts.embed_actions(actions.flatten(0, 1))
        path = [start.repeat_interleave(samples, 0)]
        for step in range(actions.shape[2]):
            window = torch.stack(path[-self.parts.history :], dim=1)
            past = embedded[:, step + 1 - window.shape[1] : step + 1]
            path.append(self.parts.predict(window, past)[:, -1])
        return {**info, "predicted_emb": torch.stack(path, dim=1).unflatten(0, (batch, samples))}

    def criterion(self, info_dict: dict[str, Any], action_candidates: Tensor | None = None) -> Tensor:
        """Latent distance of the last predicted step to the goal [B, S], as their models have it."""
        terminal = info_dict["predicted_emb"][:, :, -1]
        return (terminal - goal_of(info_dict.get("goal_emb"), terminal)[:, None]).square().sum(-1)

    def get_cost(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """Latent distance of candidates [B, S, H, A] to the goal [B, S]."""
        with torch.no_grad():
            goal = self.encode({"pixels": info_dict["goal"][:, 0]})["emb"]
        return self.criterion({**self.rollout(info_dict, action_candidates), "goal_emb": goal})


class Standardiser:
    """Actions as a model's logs have them, in the form that a policy of theirs expects of a `process`.

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
    """Goal latents [B, D] of terminal [B, S, D], from [B, T, D] or [B, S, T, D]; without gradient."""
    batch, _, size = terminal.shape
    if goal is None or goal.ndim not in (3, 4) or len(goal) != batch or goal.shape[-1] != size:
        found = "missing" if goal is None else tuple(goal.shape)
        raise ReachcostError(f"goal_emb is {found}: give latents [B = {batch}, frames, D = {size}]")
    return (goal[:, -1] if goal.ndim == 3 else goal[:, 0, -1]).detach()
