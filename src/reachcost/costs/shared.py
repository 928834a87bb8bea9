"""Several costs of the same candidates: a head that more than one of them asks is asked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from reachcost.costs.head import HeadCost
from reachcost.costs.hybrid import HybridCost
from reachcost.protocols import TerminalCost


class Once:
    """A cost that remembers what it said of the one set of candidates that it is ever shown."""

    def __init__(self, cost: TerminalCost) -> None:
        self._cost = cost
        self._said: Tensor | None = None

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        if self._said is None:
            self._said = self._cost(terminal, goal)
        return self._said


def asked_once(costs: Mapping[str, TerminalCost]) -> dict[str, TerminalCost]:
    """The same costs, for one set of candidates: a head alone and in hybrids is computed once, to the same bit."""
    known: dict[int, Once] = {}

    def once(cost: TerminalCost) -> TerminalCost:
        return known.setdefault(id(cost.head), Once(cost)) if type(cost) is HeadCost else cost

    return {
        name: replace(cost, base=once(cost.base), learned=once(cost.learned))
        if type(cost) is HybridCost
        else once(cost)
        for name, cost in costs.items()
    }
