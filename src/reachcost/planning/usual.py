"""The planner of those who name none, or only its size."""

from __future__ import annotations

from typing import Any, overload

from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM


def usual_planner(discrete_actions: int | None, with_logs: bool = False) -> CEM | CategoricalCEM:
    """One that begins with what logs know, where there are any; else the paper's.

    Args:
        discrete_actions: How many there are, None where actions are continuous.
        with_logs: Whether encoded logs are at hand.

    >>> usual_planner(None) == CEM(), usual_planner(3, with_logs=True).actions
    (True, 3)
    """
    if discrete_actions is None:
        return CEM.experienced() if with_logs else CEM()
    return CategoricalCEM.experienced(discrete_actions) if with_logs else CategoricalCEM(discrete_actions)


@overload
def sized_planner(discrete_actions: None, candidates: int, iterations: int) -> CEM: ...
@overload
def sized_planner(discrete_actions: int | None, candidates: int, iterations: int) -> CEM | CategoricalCEM: ...
def sized_planner(discrete_actions: int | None, candidates: int, iterations: int) -> CEM | CategoricalCEM:
    """The paper's planner of so many candidates, a tenth of them elites, and rounds.

    >>> sized_planner(None, candidates=100, iterations=5).elites
    10
    """
    size: dict[str, Any] = {"candidates": candidates, "iterations": iterations, "elites": max(2, candidates // 10)}
    return CEM(**size) if discrete_actions is None else CategoricalCEM(discrete_actions, **size)
