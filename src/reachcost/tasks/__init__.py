"""Simulated worlds: batched simulator, renderer, oracle distance, evaluation sets, failure categories."""

from __future__ import annotations

from reachcost.errors import ReachcostError
from reachcost.tasks.toponav import TopoNav

TASKS = {"toponav": TopoNav}


def make_task(name: str) -> TopoNav:
    """Return the task of that name.

    >>> make_task("toponav").name
    'toponav'
    """
    if name not in TASKS:
        raise ReachcostError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
    return TASKS[name]()
