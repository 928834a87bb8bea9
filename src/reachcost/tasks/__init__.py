"""Simulated worlds: batched simulator, renderer, oracle distance, evaluation sets, failure categories."""

from __future__ import annotations

from typing import Literal, overload

from reachcost.errors import ReachcostError
from reachcost.tasks.toponav import TopoNav
from reachcost.tasks.tworoom import TwoRoom

TASKS = {"toponav": TopoNav, "tworoom": TwoRoom}


@overload
def make_task(name: Literal["toponav"]) -> TopoNav: ...
@overload
def make_task(name: Literal["tworoom"]) -> TwoRoom: ...
@overload
def make_task(name: str) -> TopoNav | TwoRoom: ...
def make_task(name: str) -> TopoNav | TwoRoom:
    """Return the task of that name.

    >>> make_task("toponav").name
    'toponav'
    """
    if name not in TASKS:
        raise ReachcostError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
    return TASKS[name]()
