"""Simulated worlds: batched simulator, renderer, oracle distance, evaluation sets, failure categories."""

from __future__ import annotations

from typing import Any, Literal, overload

from reachcost.errors import ReachcostError
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom

TASKS = {"toponav": TopoNav, "tworoom": TwoRoom}


@overload
def make_task(name: Literal["toponav"]) -> TopoNav: ...
@overload
def make_task(name: Literal["tworoom"], **options: Any) -> TwoRoom: ...
@overload
def make_task(name: str, **options: Any) -> TopoNav | TwoRoom: ...
def make_task(name: str, **options: Any) -> TopoNav | TwoRoom:
    """Return the task of that name, made with its options (see `TwoRoom`).

    >>> make_task("toponav").name
    'toponav'
    """
    if name not in TASKS:
        raise ReachcostError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
    return TASKS[name](**options)
