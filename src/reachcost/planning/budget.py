"""What planners that sample candidates are asked when they are made."""

from __future__ import annotations

from typing import Any

from reachcost.errors import ReachcostError


def require_budget(planner: Any, fewest: int) -> None:
    """Refuse counts that cannot be met, with those that cannot.

    Args:
        planner: Its horizon, candidates, iterations, elites, `executed`, `warm_start` and `keep_elites` are read.
        fewest: Elites that it can fit a distribution to.
    """

    def refuse(remedy: str, *names: str) -> None:
        given = ", ".join(f"{name}={getattr(planner, name)}" for name in names)
        raise ReachcostError(f"{type(planner).__name__}({given}): {remedy}")

    if min(planner.horizon, planner.iterations) < 1 or not fewest <= planner.elites <= planner.candidates:
        refuse(
            f"make every count positive, and {fewest} <= elites <= candidates",
            *("horizon", "candidates", "iterations", "elites"),
        )
    if not 1 <= planner.executed <= planner.horizon:
        refuse(f"execute 1 to {planner.horizon} blocks, those of the horizon", "horizon", "blocks")
    if planner.warm_start and planner.executed == planner.horizon:
        refuse(
            "nothing of a plan is left to start from: execute fewer blocks, say blocks=1",
            *("horizon", "blocks", "warm_start"),
        )
    if not 0 <= planner.keep_elites <= planner.elites:
        refuse(f"keep no more elites than there are, 0 to {planner.elites}", "elites", "keep_elites")
    if planner.keep_elites == planner.candidates:
        refuse("keep fewer elites, or no new candidate is ever drawn", "candidates", "keep_elites")
