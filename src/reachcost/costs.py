"""Terminal costs: rules that assign a cost to every candidate from its predicted terminal latent.

Shape of all of them: terminal [B, S, D], goal [B, D] -> costs [B, S]. Oracle costs live in `reachcost.oracle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reachcost.protocols import Head, TerminalCost


@dataclass(frozen=True)
class LatentMSE:
    """Squared latent distance to the goal: what planners use unless told otherwise.

    >>> LatentMSE()(torch.ones(1, 2, 3), torch.zeros(1, 3))
    tensor([[1., 1.]])
    """

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        return (terminal - goal[:, None]).square().mean(-1)


@dataclass(frozen=True)
class HeadCost:
    """Replacement cost: what the head predicts between terminal and goal latent."""

    head: Head

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        return self.head(terminal, goal[:, None])


@dataclass(frozen=True)
class HybridCost:
    """Sum of two costs, each standardised within the candidate pool: std(base) + weight * std(learned)."""

    base: TerminalCost
    learned: TerminalCost
    weight: float = 1.0

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        return standardise(self.base(terminal, goal)) + self.weight * standardise(self.learned(terminal, goal))


def standardise(costs: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Zero mean and unit standard deviation over the candidates of each pool [B, S]."""
    centred = costs - costs.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True).sqrt() + epsilon)


@dataclass(frozen=True)
class GroupedCost:
    """Several costs over one batch: consecutive groups of rows, `sizes[k]` rows for `costs[k]`."""

    costs: Sequence[TerminalCost]
    sizes: Sequence[int]

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D], each group of rows with its own cost."""
        groups = zip(self.costs, terminal.split(list(self.sizes)), goal.split(list(self.sizes)), strict=True)
        return torch.cat([cost(end, target).float() for cost, end, target in groups if len(end)])
