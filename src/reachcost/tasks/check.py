"""`check_task`: the contract of a simulated world, made executable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.tasks.contract import LOST, Task


def check_task(task: Task, states: np.ndarray | None = None, actions: np.ndarray | None = None) -> dict[str, str]:
    """Raise a `ReachcostError` that teaches, if `task` breaks the contract that planning and audits rely on.

    Args:
        task: The task to check.
        states: Two or more different states [N, ...]; by default starts of its first evaluation set, or logged ones.
        actions: One action per state [N, a]; by default random indices, or logged actions.

    Checked: attributes, shapes, that inputs are left alone, determinism, that rows do not mix, that actions matter,
    that a goal counts as reached, every optional part that the task offers.

    Returns:
        The optional parts that the task does not offer, and what is lost without each.

    >>> from reachcost.tasks import make_task
    >>> check_task(make_task("tworoom"))
    {'coordinates': 'a probe reads every number of the state, angles and unseen parts too'}
    """
    _check_attributes(task)
    states = _some_states(task) if states is None else np.asarray(states)
    if len(states) < 2 or (states == states[:1]).all():
        _fail("the states to check with are fewer than two different ones", "pass states=, two or more")
    actions = _some_actions(task, len(states)) if actions is None else np.asarray(actions)
    moved = _check_rows("step", task.step, states, actions)
    if moved.shape != states.shape or moved.dtype != states.dtype:
        _fail(
            f"step made {moved.dtype} {moved.shape} of {states.dtype} {states.shape}", "return states of the same kind"
        )
    if np.array_equal(moved, states):
        _fail("step changes nothing, whatever the actions", "make it follow the actions, or pass other ones")
    _check_observations(task, states)
    reached = _check_rows("success", task.success, states, states)
    if reached.dtype != bool or reached.shape != (len(states),) or not reached.all():
        _fail(
            "success does not say that every state has reached itself",
            "return bool [N], True where goal and state agree",
        )
    _check_optional(task, states)
    return {part: lost for part, lost in LOST.items() if not task.offers(part)}


def _check_attributes(task: Task) -> None:
    if isinstance(task, type) or not isinstance(task, Task):
        _fail(f"got {task!r}", "pass an instance of a subclass of reachcost.Task")
    for name, kind in (("name", str), ("action_budget", int), ("stops_at_success", bool)):
        if not isinstance(getattr(task, name, None), kind):
            _fail(f"`{name}` is {getattr(task, name, None)!r}", f"make it a class attribute, a {kind.__name__}")
    if task.discrete_actions is not None and task.discrete_actions < 2:
        _fail(f"`discrete_actions` is {task.discrete_actions}", "give two or more, or None for continuous actions")


def _some_states(task: Task) -> np.ndarray:
    if task.sets:
        return task.evaluation_set(task.sets[0]).starts[:8]
    if task.offers("generate_logs"):
        return np.asarray(_some_logs(task).columns["state"][:8])
    return _fail("it has neither evaluation sets nor logs to take states from", "pass states=, two or more")


def _some_actions(task: Task, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if task.discrete_actions is not None:
        return rng.integers(task.discrete_actions, size=(count, 1))
    if task.offers("generate_logs"):
        logged = np.asarray(_some_logs(task).columns["action"][:count])
        return np.resize(logged, (count, *logged.shape[1:]))
    return _fail("its actions are continuous and unknown", "pass actions=, one per state")


def _some_logs(task: Task) -> Logs:
    logs = _quietly("generate_logs", task.generate_logs, 4)
    if not isinstance(logs, Logs) or not {"state", "action"} <= set(logs.columns):
        _fail("generate_logs leaves out a column", "return Logs with the columns `state` and `action`")
    return logs


def _check_rows(name: str, call: Callable[..., np.ndarray], *batch: np.ndarray) -> np.ndarray:
    """The result for a batch, after asking twice, row by row and in the other order."""
    kept = [array.copy() for array in batch]
    whole = np.asarray(_quietly(name, call, *batch))
    if not all(np.array_equal(before, after) for before, after in zip(kept, batch, strict=True)):
        _fail(f"{name} changes the arrays it is given", "work on a copy")
    if whole.shape[:1] != (len(batch[0]),):
        _fail(f"{name} returned {whole.shape} for {len(batch[0])} states", "return one row for each state")
    if not _same(whole, np.asarray(_quietly(name, call, *batch))):
        _fail(f"{name} gives different results for the same input", "draw random numbers outside of the task")
    alone = np.concatenate(
        [np.asarray(_quietly(name, call, *(part[row : row + 1] for part in batch))) for row in (0, 1)]
    )
    backwards = np.asarray(_quietly(name, call, *(part[::-1].copy() for part in batch)))[::-1]
    if not (_same(alone, whole[:2]) and _same(backwards, whole)):
        _fail(f"{name} of a row changes with the other rows", "treat the first axis as a batch of unrelated states")
    return whole


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    return np.array_equal(left, right, equal_nan=left.dtype.kind in "fc")


def _check_observations(task: Task, states: np.ndarray) -> None:
    columns = _quietly("observe", task.observe, states)
    if not isinstance(columns, Mapping) or "state" not in columns:
        _fail("observe returned no column `state`", "return a mapping with `state` and what world models encode")
    for name in columns:
        _check_rows(f"observe ({name!r})", lambda states, name=name: task.observe(states)[name], states)


def _check_optional(task: Task, states: np.ndarray) -> None:
    goals = states[::-1].copy()
    if task.offers("distance"):
        for first, second in ((states, goals), (states, states)):
            found = _check_rows("distance", task.distance, first, second)
            if found.shape != (len(states),) or not (found >= 0).all():
                _fail(f"distance returned {found!r}", "return non-negative numbers [N]")
    groups = _quietly("groups", task.groups, states, goals)
    for name, found in groups.items():
        if np.shape(found) != (len(states),) or np.asarray(found).dtype != bool:
            _fail(f"the group {name!r} is {found!r}", "return bool [N] for every name")
    if groups and np.max(np.sum(list(groups.values()), axis=0)) > 1:
        _fail(f"an episode is in several of the groups {', '.join(groups)}", "put it in at most one of them")
    names = np.asarray(_quietly("category", task.category, states, goals, goals))
    if names.shape != (len(states),) or not (names == "success").all():
        _fail(f"category returned {names!r} for episodes that ended at their goals", "return str [N], `success` there")
    read = np.asarray(_quietly("coordinates", task.coordinates, states))
    if read.ndim != 2 or len(read) != len(states):
        _fail(f"coordinates returned {read.shape} for {len(states)} states", "return [N, K]")
    if task.offers("bottleneck"):
        lies = np.asarray(_quietly("bottleneck", task.bottleneck, states))
        if lies.shape != (len(states),) or not np.isin(lies, (0, 1, 2)).all():
            _fail(f"bottleneck returned {lies!r}", "return 2 near, 0 far, 1 in between: int [N]")
    if task.offers("render"):
        drawn = np.asarray(_quietly("render", task.render, states))
        if drawn.dtype != np.uint8 or drawn.ndim != 4 or drawn.shape[::3] != (len(states), 3):
            _fail(f"render returned {drawn.dtype} {drawn.shape}", "return uint8 pixels [N, height, width, 3]")
    for name in task.sets:
        found = _quietly("evaluation_set", task.evaluation_set, name)
        if not isinstance(found, EvaluationSet) or found.starts.shape[1:] != states.shape[1:]:
            _fail(f"evaluation_set({name!r}) is {found!r}", "return an EvaluationSet of states of this task")
    if task.offers("generate_logs"):
        _some_logs(task)


def _quietly(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except ReachcostError:
        raise
    except Exception as error:  # a foreign task may raise anything
        raise ReachcostError(
            f"task: {name} failed on a batch of the documented shapes ({type(error).__name__}: {error}): "
            "see reachcost.Task for the shapes of its parts"
        ) from error


def _fail(what: str, remedy: str) -> NoReturn:
    raise ReachcostError(f"task: {what}: {remedy}")
