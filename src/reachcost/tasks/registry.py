"""The worlds that come with reachcost, by name: the one place where a new world is entered."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, overload

import gymnasium

from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.tasks.contract import Task
    from reachcost.tasks.toponav.task import TopoNav
    from reachcost.tasks.tworoom import TwoRoom


@dataclass(frozen=True)
class Entry:
    """Where a world lives; nothing of it is imported before it is asked for."""

    task: str
    """module:class of its task."""
    environment: str
    """module:class of its Gymnasium environment."""
    gymnasium_id: str
    """How Gymnasium calls it."""
    budget: int
    """Steps of an episode there."""


TASKS = {
    "tworoom": Entry("reachcost.tasks.tworoom:TwoRoom", "reachcost.tasks.tworoom.env:TwoRoomEnv", "TwoRoom-v0", 50),
    "toponav": Entry("reachcost.tasks.toponav:TopoNav", "reachcost.tasks.toponav.env:TopoNavEnv", "TopoNav-v0", 90),
}
"""The first one is what commands take where no task is named."""


@overload
def make_task(name: Literal["toponav"]) -> TopoNav: ...
@overload
def make_task(name: Literal["tworoom"], **options: Any) -> TwoRoom: ...
@overload
def make_task(name: str | None = None, **options: Any) -> Task: ...
def make_task(name: str | None = None, **options: Any) -> Task:
    """Return the task of that name, made with its options.

    >>> make_task("toponav").name
    'toponav'
    """
    name = next(iter(TASKS)) if name is None else name
    if name not in TASKS:
        raise ReachcostError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
    module, _, attribute = TASKS[name].task.partition(":")
    made = getattr(importlib.import_module(module), attribute)
    known = signature(made).parameters
    if unknown := [option for option in options if option not in known]:
        raise ReachcostError(
            f"the task {name!r} has no option {', '.join(unknown)}: it has {', '.join(known) or 'none'}"
        )
    return made(**options)


def register_environments() -> None:
    """Make `gymnasium.make("reachcost/...")` work; the environments are imported when they are made."""
    for entry in TASKS.values():
        if (name := f"reachcost/{entry.gymnasium_id}") not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry.environment, max_episode_steps=entry.budget)
