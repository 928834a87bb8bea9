"""What a terminal cost counts."""

from __future__ import annotations

from reachcost.costs.latent import LatentMSE
from reachcost.protocols import TerminalCost
from reachcost.tasks.contract import Task

ORACLE = "oracle"


def true_distance(task: Task | None) -> str:
    """What the oracle distance is called, with what it counts where the task says so."""
    unit = "" if task is None else task.distance_unit
    return f"{unit} of true distance" if unit else "true distance"


def unit_of(name: str, cost: TerminalCost | None, task: Task | None = None) -> str:
    """What a cost of that name counts, as far as that is known.

    >>> unit_of("raw", LatentMSE()), unit_of("mine", None)
    ('mean squared latent difference', '')
    """
    if name == ORACLE:
        return true_distance(task)
    if isinstance(cost, LatentMSE):
        return "mean squared latent difference"
    records = [getattr(head, "record", {}).get("pairs", {}) for head in getattr(cost, "heads", ())]
    return "" if len(records) != 1 else true_distance(task) if records[0].get("labels") == ORACLE else "steps"
