"""Whether logs are those of a task; asked where the two meet, before anything reads them."""

from __future__ import annotations

import warnings

import numpy as np

from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.tasks.contract import Task
from reachcost.tasks.trial import stepped

STEPS = 200
"""Logged steps that are taken again in the task."""


def some_states(task: Task) -> np.ndarray | None:
    """A state of a task [1, ...], logged or the first start of its first evaluation set; None if it has neither."""
    if task.offers("generate_logs"):
        return np.asarray(task.generate_logs(1).columns["state"][:1])
    return task.evaluation_set(task.sets[0]).starts[:1] if task.sets else None


def require_logs_of(task: Task, logs: Logs) -> None:
    """Refuse logs whose states are not those of the task, or whose actions are none of its discrete ones.

    Warns if the logged steps, taken in the task, lead further astray than none at all.

    >>> from reachcost import make_task
    >>> require_logs_of(make_task("tworoom"), make_task("tworoom").generate_logs(2))
    >>> require_logs_of(make_task("tworoom"), Logs({"state": np.zeros((4, 3))}, np.array([4])))
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: the logs hold states [3], but those of tworoom are [2]: give logs of this world
    """
    known = some_states(task) if "state" in logs.columns else None
    if known is not None and (shape := logs.columns["state"].shape[1:]) != known.shape[1:]:
        raise ReachcostError(
            f"the logs hold states {list(shape)}, but those of {task.name} are {list(known.shape[1:])}: give logs of "
            "this world"
        )
    if task.discrete_actions is not None and "action" in logs.columns:
        leading = np.ones(logs.rows, bool)
        leading[(logs.offsets + logs.lengths - 1)[logs.lengths > 0]] = False  # the last ones may be anything
        taken = np.asarray(logs.columns["action"][:])[leading]
        if (wrong := taken[~np.isin(taken, np.arange(task.discrete_actions))]).size:
            raise ReachcostError(
                f"the logs hold the action {wrong[0]}, but those of {task.name} are the whole numbers 0 to "
                f"{task.discrete_actions - 1}: log the index of each action"
            )
    if known is not None and "action" in logs.columns and _led_astray(task, logs, known.dtype):
        warnings.warn(
            f"steps that the logs hold do not lead in {task.name} where they led in the logs: are they logs of this "
            "world, with its actions?",
            ReachcostWarning,
            stacklevel=2,
        )


def _led_astray(task: Task, logs: Logs, kind: np.dtype) -> bool:
    """Whether `step` misses the next states of some logged rows by more than standing still does."""
    rows = logs.window_starts(2)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(STEPS, len(rows))).astype(int))]
    logged = logs.columns["state"], logs.columns["action"]
    states, after, actions = np.asarray(logged[0][rows]), np.asarray(logged[0][rows + 1]), np.asarray(logged[1][rows])
    moved = stepped(task, states.astype(kind), actions if task.discrete_actions is None else actions.astype(np.int64))
    change = (after.astype(np.float64) - states).reshape(len(rows), -1)
    missed = (after.astype(np.float64) - moved).reshape(len(rows), -1)
    scale = np.maximum(change.std(0), 1e-9)
    return bool(np.square(missed / scale).sum() > np.square(change / scale).sum())
