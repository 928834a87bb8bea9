"""Checks that logs and evaluation sets fit a task, before anything runs on them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning, call_foreign
from reachcost.tasks.contract import Task

STEPS = 200  # maximum number of logged steps that are repeated in the task


def example_states(task: Task) -> np.ndarray | None:
    """A state of a task [1, ...], logged or the first start of its first evaluation set; None if it has neither."""
    if task.offers("generate_logs"):
        return np.asarray(task.generate_logs(1).columns["state"][:1])
    return task.evaluation_set(task.sets[0]).starts[:1] if task.sets else None


def require_logs_of(task: Task, logs: Logs) -> None:
    """Require logs whose states have the shape of the task's, and whose actions are among its discrete ones.

    Warns if the logged actions, executed in the task, predict the logged states worse than standing still.
    """
    known = example_states(task) if "state" in logs.columns else None
    if known is not None and (shape := logs.columns["state"].shape[1:]) != known.shape[1:]:
        theirs = f"those of {task.name} are {list(known.shape[1:])}"
        raise ReachcostError(f"the logs hold states {list(shape)}, but {theirs}: give logs of this world")
    if task.discrete_actions is not None and "action" in logs.columns:
        taken = np.asarray(logs.columns["action"][:])[logs.window_starts(2)]  # the last action may be anything
        if (wrong := taken[~np.isin(taken, np.arange(task.discrete_actions))]).size:
            known_actions = f"those of {task.name} are the whole numbers 0 to {task.discrete_actions - 1}"
            raise ReachcostError(
                f"the logs hold the action {wrong[0]}, but {known_actions}: log the index of each action"
            )
    if known is not None and "action" in logs.columns and _disagrees(task, logs, known.dtype):
        problem = f"logged steps do not lead in {task.name} where they led in the logs"
        warnings.warn(f"{problem}: check that logs and task are of one world", ReachcostWarning, stacklevel=2)


def _disagrees(task: Task, logs: Logs, dtype: np.dtype) -> bool:
    """Whether `step` misses the next states of some logged rows by more than standing still does."""
    rows = logs.window_starts(2)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(STEPS, len(rows))).astype(int))]
    states, after = (np.asarray(logs.columns["state"][part]) for part in (rows, rows + 1))
    actions = np.asarray(logs.columns["action"][rows])
    moved = stepped(task, states.astype(dtype), actions if task.discrete_actions is None else actions.astype(np.int64))
    change = (after.astype(np.float64) - states).reshape(len(rows), -1)
    missed = (after.astype(np.float64) - moved).reshape(len(rows), -1)
    scale = np.maximum(change.std(0), 1e-9)
    return bool(np.square(missed / scale).sum() > np.square(change / scale).sum())


def try_task(task: Task, evaluation: EvaluationSet, action: np.ndarray) -> None:
    """Call every method that an episode needs, on the first start and goal of a set and an action [a]."""
    start, goal = evaluation.starts[:1], evaluation.goals[:1]
    _called(task, "observe", start)
    after = np.asarray(stepped(task, start.copy(), action[None]))
    if after.shape != start.shape or not np.can_cast(after.dtype, start.dtype, "same_kind"):
        made = f"made {_some(after)} of states {_some(start)}"
        raise ReachcostError(f"{task.name}: `step` {made}: return states of the same kind; see reachcost.check_task")
    calls = {"success": (start, goal), "category": (start, start, goal)}
    if task.offers("distance"):
        calls["distance"] = (start, goal)
    for name, arguments in calls.items():
        if np.shape(answer := _called(task, name, *arguments)) != (1,):
            returned = f"returned {_some(answer)} for one state"
            raise ReachcostError(f"{task.name}: `{name}` {returned}: return one value for each state [N]")


def stepped(task: Task, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """`task.step` of states [N, ...] and actions [N, a]; an exception becomes one sentence."""
    return _called(task, "step", states, actions)


def _called(task: Task, name: str, *arrays: np.ndarray) -> Any:
    failed = f"{task.name}: `{name}` failed on states {' and '.join(map(_some, arrays))}"
    continuous = name == "step" and task.discrete_actions is None
    indices = ", declare `discrete_actions` if actions are indices" if continuous else ""
    remedy = f"give states as the task logs them{indices}, or fix it; see reachcost.check_task"
    return call_foreign(lambda: getattr(task, name)(*arrays), failed, remedy)


def _some(values: Any) -> str:
    return f"{list(np.shape(values))} of {np.asarray(values).dtype}"
