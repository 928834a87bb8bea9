"""Worlds by name: the bundled ones, and those that a user registers."""

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
    """A bundled world, imported when it is made."""

    task: str  # module:class of its task
    environment: str  # module:class of its Gymnasium environment
    gymnasium_id: str  # its id in Gymnasium, after `reachcost/`
    budget: int  # maximum number of steps per episode there


TASKS = {
    "tworoom": Entry("reachcost.tasks.tworoom:TwoRoom", "reachcost.tasks.tworoom.task:TwoRoomEnv", "TwoRoom-v0", 50),
    "toponav": Entry("reachcost.tasks.toponav:TopoNav", "reachcost.tasks.toponav.task:TopoNavEnv", "TopoNav-v0", 90),
    "pusht": Entry("reachcost.tasks.pusht:PushT", "reachcost.tasks.pusht.task:PushTEnv", "PushT-v0", 50),
}
"""The bundled worlds; the first one is the default of commands."""
_REGISTERED: dict[str, Callable[..., Task]] = {}


def register_task(name: str, factory: Callable[..., Task]) -> None:
    """Let `make_task(name)` make a custom world; a second registration replaces the first.

    Args:
        name: Name in commands and studies.
        factory: The class of the task, or a function that makes one; it receives the keywords of `make_task`.

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
    """Names that `make_task` accepts."""
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
    """Make a task by calling `factory`, and check that it has these options."""
    from reachcost.tasks.contract import Task

    known = signature(factory).parameters
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values())
    if unknown := [option for option in options if option not in known and not open_ended]:
        raise ReachcostError(
            f"the task {name!r} has no option {', '.join(unknown)}: it has {', '.join(known) or 'none'}"
        )
    try:
        made = factory(**options)
    except TypeError as error:  # a required method or argument is missing
        raise ReachcostError(f"the task {name!r} cannot be made ({error}): see reachcost.Task") from error
    if not isinstance(made, Task):
        raise ReachcostError(
            f"the task {name!r} is made as {made!r}: return an instance of a subclass of reachcost.Task"
        )
    return made


def register_environments() -> None:
    """Register the bundled worlds for `gymnasium.make("reachcost/...")`."""
    for entry in TASKS.values():
        if (name := f"reachcost/{entry.gymnasium_id}") not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry.environment, max_episode_steps=entry.budget)
