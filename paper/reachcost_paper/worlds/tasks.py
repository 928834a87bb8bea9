"""Base class of the suite's tasks, their evaluation sets, and logs of a wanderer."""

from abc import abstractmethod
from importlib.util import find_spec
from types import MappingProxyType

import numpy as np
from numpy.random import Generator

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.contract import Task

EPISODES = 30
"""Episodes of each evaluation set."""
SEEDS = MappingProxyType({"tune": 1, "report": 2})
"""Evaluation sets and their seeds: settings are chosen on `tune`, numbers are reported on `report`."""
KEPT, KICK = 0.9, 0.45
"""Share of a wanderer's direction kept each step, and deviation of what is added: the deviation stays about 1."""


class FeatureTask(Task):
    """A task whose states can be written as features and read back from them."""

    stops_at_success = True
    sets = tuple(SEEDS)

    @abstractmethod
    def features(self, states: np.ndarray) -> np.ndarray:
        """The features of a latent, each about -1 to 1, angles as sine and cosine: [N, ...] -> [N, F]."""

    @abstractmethod
    def place(self, features: np.ndarray) -> np.ndarray:
        """The states of features [N, F] that may be slightly off: [N, ...]."""

    def observe(self, states: np.ndarray) -> Observations:
        return {"state": states}

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        return np.asarray(self.features(states), np.float64)


def evaluation(task: Task, name: str, starts: np.ndarray, goals: np.ndarray) -> EvaluationSet:
    """The set of that name, from the first starts and goals [E, ...]."""
    starts, goals = starts[:EPISODES], goals[:EPISODES]
    return EvaluationSet(starts, goals, name, SEEDS[name], world=task.world)


def wander(task: Task, starts: np.ndarray, actions: int, steps: int, rng: Generator) -> Logs:
    """Log one episode from each start [E, ...], with actions [-1, 1] of that size whose direction changes slowly."""
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


def require(package: str, world: str) -> None:
    """Refuse a world whose package is not installed."""
    if find_spec(package) is None:
        raise ReachcostError(f"the world {world!r} needs {package}: pip install 'reachcost[worlds]'")
