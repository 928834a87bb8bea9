"""Terminal costs: rules that assign a cost to every candidate from its predicted terminal latent.

Shape of all of them: terminal [B, S, D], goal [B, D] -> costs [B, S]. Oracle costs live in `reachcost.oracle`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.errors import ReachcostError
from reachcost.latents import model_identity
from reachcost.parallel import each
from reachcost.protocols import Head, TerminalCost, WorldModel


@dataclass(frozen=True)
class LatentMSE:
    """Squared latent distance to the goal: what planners use unless told otherwise.

    >>> LatentMSE()(torch.ones(1, 2, 3), torch.zeros(1, 3))
    tensor([[1., 1.]])
    """

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        if terminal.shape[-1] != goal.shape[-1] or not terminal.is_floating_point():
            raise ReachcostError(
                f"LatentMSE compares float latents of one dimension, not {terminal.dtype} [{terminal.shape[-1]}] with "
                f"[{goal.shape[-1]}]: encode both with one model, and tabulate model and costs together"
            )
        return (terminal - goal[:, None]).square().mean(-1)


@dataclass(frozen=True)
class HeadCost:
    """Replacement cost: what the head predicts between terminal and goal latent."""

    head: Head

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads behind the cost."""
        return (self.head,)

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D], each pool by itself: no pool depends on the others."""
        return torch.stack(each(lambda pool: self.head(*pool), list(zip(terminal, goal[:, None], strict=True))))


@dataclass(frozen=True)
class HybridCost:
    """Sum of two costs, each standardised within the candidate pool: std(base) + weight * std(learned)."""

    base: TerminalCost
    learned: TerminalCost
    weight: float = 1.0

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads behind the cost."""
        return tuple(head for cost in (self.base, self.learned) for head in getattr(cost, "heads", ()))

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        return standardise(self.base(terminal, goal)) + self.weight * standardise(self.learned(terminal, goal))


def standardise(costs: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Zero mean and unit standard deviation over the candidates of each pool [B, S].

    Mean and deviation carry no gradient: a planner that descends it moves each candidate by its own cost alone.
    """
    centred = costs - costs.detach().mean(-1, keepdim=True)
    return centred / (centred.detach().square().mean(-1, keepdim=True).sqrt() + epsilon)


@dataclass(frozen=True)
class GroupedCost:
    """Several costs over one batch: consecutive groups of rows, `episodes[k]` (their numbers) for the k-th cost."""

    costs: Mapping[str, TerminalCost]
    episodes: Sequence[np.ndarray]

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D], each group of rows with its own cost."""
        sizes = [len(group) for group in self.episodes]
        groups = zip(self.costs.items(), terminal.split(sizes), goal.split(sizes), self.episodes, strict=True)
        return torch.cat([score(*named, end, target, group) for named, end, target, group in groups if len(group)])


def require_one_model(costs: Mapping[str, TerminalCost], model: WorldModel) -> None:
    """Refuse what is no mapping of costs, and heads that were trained on latents of another world model."""
    if not isinstance(costs, Mapping):
        raise ReachcostError(f"costs is a {type(costs).__name__}: pass a mapping {{name: cost}}")
    here = model_identity(model)
    planners = here["name"] if here else type(model).__name__
    for name, cost in costs.items():
        if isinstance(cost, nn.Module):
            raise ReachcostError(f"cost {name!r} is a head: wrap it, HeadCost(head)")
        for head in getattr(cost, "heads", ()):
            if head.latent_dim != model.latent_dim:
                raise ReachcostError(
                    f"the head of cost {name!r} reads latents of dimension {head.latent_dim}, but {planners} makes "
                    f"{model.latent_dim}: fit a head on latents of this world model"
                )
            trained_on = getattr(head, "record", {}).get("pairs", {}).get("model")
            if trained_on and here and trained_on["sha256"] != here["sha256"]:
                raise ReachcostError(
                    f"the head of cost {name!r} was trained on latents of {trained_on['name']} "
                    f"({trained_on['sha256'][:12]}), but the planner uses {planners} ({here['sha256'][:12]}): "
                    "fit a head on latents of this world model"
                )


def score(name: str, cost: TerminalCost, terminal: Tensor, goal: Tensor, episodes: np.ndarray) -> Tensor:
    """Apply a cost to B episodes, and refuse what is not costs [B, S], all finite, naming cost and episode."""
    costs = cost(terminal, goal)
    if not isinstance(costs, Tensor) or costs.shape != terminal.shape[:2]:
        found = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
        raise ReachcostError(
            f"terminal cost {name!r} returned {found}: return a torch.Tensor [B, S] = {tuple(terminal.shape[:2])}"
        )
    if not torch.isfinite(costs).all():
        row, candidate = torch.argwhere(~torch.isfinite(costs))[0].tolist()
        value = costs[row, candidate].item()
        raise ReachcostError(
            f"terminal cost {name!r} of candidate {candidate} in episode {episodes[row]} is {value}: "
            "a cost must be finite to be ranked, check its head and latents"
        )
    return costs.float()
