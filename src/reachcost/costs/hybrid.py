"""The hybrid cost: two costs, each standardised within its candidate pool, added up."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from reachcost.core.types import require_numbers
from reachcost.costs.checks import require_cost
from reachcost.protocols import Head, TerminalCost


@dataclass(frozen=True)
class HybridCost:
    """Sum of two costs, each standardised within the candidate pool: std(base) + weight * std(learned)."""

    base: TerminalCost
    learned: TerminalCost
    weight: float = 1.0

    def __post_init__(self) -> None:
        require_cost(self.base, "base")
        require_cost(self.learned, "learned")
        require_numbers(self)

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
