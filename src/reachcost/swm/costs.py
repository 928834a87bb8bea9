"""A head as the cost of stable-worldmodel's planners.

Shapes: B episodes, S candidates, T predicted steps, G goal frames, D latent size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead

EPSILON = 1e-6


class ReachObjective(nn.Module):
    """What git main calls an objective: `info_dict -> costs [B, S]`, from `predicted_emb` and `goal_emb`.

    Args:
        head: A fitted head; moved with the module, so its device is the planner's.
        weight: None replaces latent distance; a number adds the head to it, each standardised within its pool.
        pred_key: Where the rollout is.
        goal_key: Where the goal is.

    >>> from reachcost import PairHead
    >>> objective = ReachObjective(PairHead(8, hidden=4))
    >>> objective({"predicted_emb": torch.randn(2, 5, 3, 8), "goal_emb": torch.randn(2, 1, 8)}).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        head: LearnedHead,
        weight: float | None = None,
        pred_key: str = "predicted_emb",
        goal_key: str = "goal_emb",
    ) -> None:
        super().__init__()
        self.head, self.weight, self.pred_key, self.goal_key = head, weight, pred_key, goal_key

    def forward(self, info_dict: dict[str, Any]) -> Tensor:
        """Score the last predicted step of every candidate against the last goal frame."""
        terminal = _require(info_dict, self.pred_key, 4)[:, :, -1]
        goal = goal_of(info_dict.get(self.goal_key), terminal)
        learned = self.head(terminal, goal[:, None])
        if self.weight is None:
            return learned
        raw = (terminal - goal[:, None]).square().sum(-1)
        return _standardise(raw) + self.weight * _standardise(learned)


class RepairedModel(nn.Module):
    """A world model of release 0.1.1 whose `get_cost` asks a head: give it to any solver in place of the model.

    It encodes the goal itself, once for each call, so that nothing cached for other episodes is compared, and gives the
    goal its candidate axis, which the release forgets.

    Args:
        model: A model of stable-worldmodel 0.1.1 (`encode`, `rollout`), or one of ours as `SwmModel`.
        head: A fitted head.
        weight: None replaces latent distance; a number adds the head to it, each standardised within its pool.
    """

    def __init__(self, model: nn.Module, head: LearnedHead, weight: float | None = None) -> None:
        super().__init__()
        self.model, self.objective = model, ReachObjective(head, weight)

    def criterion(self, info_dict: dict[str, Any], action_candidates: Tensor | None = None) -> Tensor:
        """Score what was rolled out already."""
        return self.objective(info_dict)

    def get_cost(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """Roll candidates [B, S, H, A] out and score them -> [B, S]; the given dictionary is not changed."""
        model: Any = self.model
        fresh = {key: value for key, value in info_dict.items() if key not in ("emb", "goal_emb", "predicted_emb")}
        goal = {key: value[:, 0] for key, value in fresh.items() if torch.is_tensor(value)}
        if "goal" not in goal:
            raise ReachcostError("the info dictionary has no 'goal' to reach: evaluate with goals")
        for key in [key for key in goal if key.startswith("goal_")]:
            goal[key.removeprefix("goal_")] = goal.pop(key)
        goal["pixels"] = goal.pop("goal")
        goal.pop("action", None)
        with torch.no_grad():
            goal_latents = model.encode(goal)["emb"]
        rolled = dict(model.rollout(dict(fresh), action_candidates))
        return self.objective({**rolled, "goal_emb": goal_latents})


def goal_of(goal: Tensor | None, terminal: Tensor) -> Tensor:
    """Goal latents [B, D] of terminal [B, S, D], from [B, G, D] or [B, S, G, D]; without gradient."""
    batch, _, size = terminal.shape
    if goal is None or goal.ndim not in (3, 4) or len(goal) != batch or goal.shape[-1] != size:
        found = "missing" if goal is None else tuple(goal.shape)
        raise ReachcostError(f"goal_emb is {found}: give latents [B = {batch}, frames, D = {size}]")
    return (goal[:, -1] if goal.ndim == 3 else goal[:, 0, -1]).detach()


def _standardise(costs: Tensor) -> Tensor:
    """Zero mean and unit deviation within each pool [B, S]; their gradient is that of the costs alone."""
    with torch.no_grad():
        mean = costs.mean(-1, keepdim=True)
        deviation = (costs - mean).square().mean(-1, keepdim=True).sqrt()
    return (costs - mean) / (deviation + EPSILON)


def _require(info_dict: dict[str, Any], key: str, dimensions: int) -> Tensor:
    found = info_dict.get(key)
    if not isinstance(found, Tensor) or found.ndim != dimensions:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ReachcostError(f"{key} is {shape}: roll the candidates out first, [B, S, T, D]")
    return found
