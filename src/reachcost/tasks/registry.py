"""Worlds by name: those that come with reachcost, and those that a user registers."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
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
    "pusht": Entry("reachcost.tasks.pusht:PushT", "reachcost.tasks.pusht.env:PushTEnv", "PushT-v0", 50),
}
"""The bundled worlds; the first one is what commands take where no task is named."""
_REGISTERED: dict[str, Callable[..., Task]] = {}


def register_task(name: str, factory: Callable[..., Task]) -> None:
    """Let `make_task(name)` make a world of one's own; a second time replaces it.

    Args:
        name: How commands and studies call it.
        factory: The class of the task, or a function that makes one; keywords of `make_task` go to it.

    >>> from reachcost.tasks import TwoRoom
    >>> register_task("my-room", TwoRoom)
    >>> make_task("my-room", pixels=64).name
    'tworoom'
    """
    if name in TASKS:
        raise ReachcostError(f"the task {name!r} comes with reachcost: choose another name")
    if not name or not callable(factory):
        raise ReachcostError(f"cannot register {factory!r} as {name!r}: give a name, and a class or function")
    _REGISTERED[name] = factory


def task_names() -> tuple[str, ...]:
    """What `make_task` knows."""
    return (*TASKS, *_REGISTERED)


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
    if name in _REGISTERED:
        return build_task(name, _REGISTERED[name], **options)
    if name not in TASKS:
        raise ReachcostError(f"unknown task {name!r}: choose one of {', '.join(task_names())}")
    module, _, attribute = TASKS[name].task.partition(":")
    return build_task(name, getattr(importlib.import_module(module), attribute), **options)


def build_task(name: str, factory: Callable[..., Task], **options: Any) -> Task:
    """Call what makes a task, after checking that it has these options."""
    from reachcost.tasks.contract import Task

    known = signature(factory).parameters
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values())
    if unknown := [option for option in options if option not in known and not open_ended]:
        raise ReachcostError(
            f"the task {name!r} has no option {', '.join(unknown)}: it has {', '.join(known) or 'none'}"
        )
    try:
        made = factory(**options)
    except TypeError as error:  # a method that every task must have is missing, or an argument is
        raise ReachcostError(f"the task {name!r} cannot be made ({error}): see reachcost.Task") from error
    if not isinstance(made, Task):
        raise ReachcostError(
            f"the task {name!r} is made as {made!r}: return an instance of a subclass of reachcost.Task"
        )
    return made


def register_environments() -> None:
    """Make `gymnasium.make("reachcost/...")` work; the environments are imported when they are made."""
    for entry in TASKS.values():
        if (name := f"reachcost/{entry.gymnasium_id}") not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry.environment, max_episode_steps=entry.budget)
