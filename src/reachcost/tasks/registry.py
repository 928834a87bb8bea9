"""Worlds by name: the bundled ones, and those that a user registers."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, overload

import gymnasium

from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.tasks.contract import Task
    from reachcost.tasks.toponav.task import TopoNav
    from reachcost.tasks.tworoom import TwoRoom


TASKS = {"tworoom": ("TwoRoom", 50), "toponav": ("TopoNav", 90), "pusht": ("PushT", 50)}
"""Class and episode length of the bundled worlds, imported when they are made; the first is the default."""
_REGISTERED: dict[str, Callable[..., Task]] = {}


def register_task(name: str, factory: Callable[..., Task]) -> None:
    """Let `make_task(name)` make a custom world; a second registration replaces the first.

    `factory` is the class of the task or a function that makes one; it receives the keywords of `make_task`.

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
    module = importlib.import_module(f"reachcost.tasks.{name}.task")
    return build_task(name, getattr(module, TASKS[name][0]), **options)


def build_task(name: str, factory: Callable[..., Task], **options: Any) -> Task:
    """Make a task by calling `factory`, and check that it is one."""
    from reachcost.tasks.contract import Task

    try:
        made = factory(**options)
    except TypeError as error:  # an unknown option, or a task without a required method
        options_of = ", ".join(signature(factory).parameters) or "none"
        raise ReachcostError(f"the task {name!r} cannot be made ({error}): its options are {options_of}") from error
    if not isinstance(made, Task):
        raise ReachcostError(f"the factory of {name!r} returned {made!r}: return an instance of reachcost.Task")
    return made


def register_environments() -> None:
    """Register the bundled worlds for `gymnasium.make("reachcost/...")`."""
    for name, (world, steps) in TASKS.items():
        if f"reachcost/{world}-v0" not in gymnasium.registry:
            entry_point = f"reachcost.tasks.{name}.task:{world}Env"
            gymnasium.register(f"reachcost/{world}-v0", entry_point=entry_point, max_episode_steps=steps)
