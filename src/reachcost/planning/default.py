"""Default planners, chosen by the kind of actions."""

from __future__ import annotations

from typing import Any, overload

from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM


def default_planner(discrete_actions: int | None, with_logs: bool = False) -> CEM | CategoricalCEM:
    """The planner that begins with logged actions where there are logs, else the paper's.

    Args:
        discrete_actions: Number of discrete actions; None where actions are continuous.
        with_logs: Whether there are encoded logs.

    >>> default_planner(None) == CEM(), default_planner(3, with_logs=True).actions
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
    """The paper's planner with another number of candidates, a tenth of them elites, and of rounds.

    >>> sized_planner(None, candidates=100, iterations=5).elites
    10
    """
    size: dict[str, Any] = {"candidates": candidates, "iterations": iterations, "elites": max(2, candidates // 10)}
    return CEM(**size) if discrete_actions is None else CategoricalCEM(discrete_actions, **size)
