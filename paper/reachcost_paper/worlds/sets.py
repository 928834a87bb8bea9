"""The evaluation sets of the worlds: choices are made on `tune`, numbers are told of `report`."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.tasks.contract import Task

EPISODES = 30
"""Of each set."""
SEEDS = MappingProxyType({"tune": 1, "report": 2})
"""By name, what each is drawn by."""


def evaluation(task: Task, name: str, starts: np.ndarray, goals: np.ndarray) -> EvaluationSet:
    """The set of that name, from its starts and goals [E, ...]."""
    return EvaluationSet(
        name=name, starts=starts, goals=goals, seed=SEEDS[name], episodes=np.arange(len(starts)), world=task.world
    )
