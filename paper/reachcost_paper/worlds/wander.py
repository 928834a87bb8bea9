"""Logs of a wanderer whose direction changes slowly: a policy for any world of continuous actions in [-1, 1]."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from reachcost.data.logs import Logs
from reachcost.tasks.contract import Task

KEPT, KICK = 0.9, 0.45
"""Share of the direction that stays, and size of what is added each step: together their deviation is about 1."""


def wander(task: Task, starts: np.ndarray, actions: int, steps: int, rng: Generator) -> Logs:
    """Log one episode from each of the starts [E, ...], with so many numbers in an action.

    >>> from reachcost_paper.worlds.open import Open
    >>> wander(Open(), np.zeros((3, 2), np.float32), actions=2, steps=5, rng=np.random.default_rng(0)).lengths.tolist()
    [5, 5, 5]
    """
    here, drift = starts, rng.standard_normal((len(starts), actions))
    states, taken = [], []
    for _ in range(steps):
        drift = KEPT * drift + KICK * rng.standard_normal(drift.shape)
        taken.append(np.clip(drift, -1, 1).astype(np.float32))
        states.append(here)
        here = task.step(here, taken[-1])
    columns = {"state": np.stack(states, axis=1), "action": np.stack(taken, axis=1)}
    flat = {name: rows.reshape(-1, *rows.shape[2:]) for name, rows in columns.items()}
    return Logs(flat, np.full(len(starts), steps), task.observe)
