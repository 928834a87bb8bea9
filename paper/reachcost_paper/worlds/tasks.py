"""Base class of the suite's tasks, their evaluation sets, logs of a wanderer, and an open field to wander in."""

from abc import abstractmethod
from importlib.util import find_spec
from types import MappingProxyType

import numpy as np
from numpy.random import Generator

from reachcost.core.seeding import generator
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


def logs_until(task: Task, path: np.ndarray, taken: np.ndarray, there: np.ndarray) -> Logs:
    """Logs of states [E, T + 1, ...] and actions [E, T, A] until the first state at the goal, bool [E, T + 1]."""
    lengths = np.where(there.any(1), there.argmax(1) + 1, there.shape[1])
    logged = np.arange(there.shape[1]) < lengths[:, None]
    actions = np.concatenate([taken, taken[:, -1:]], axis=1)  # the action of a last row is not executed
    return Logs({"state": path[logged], "action": actions[logged]}, lengths, task.observe)


def require(package: str, world: str) -> None:
    if find_spec(package) is None:
        raise ReachcostError(f"the world {world!r} needs {package}: pip install 'reachcost[worlds]'")


FIELD, SPEED, NEAR, APART = 40.0, 1.0, 2.0, 15.0
"""Side of the open field, and its lengths."""


class Open(FeatureTask):
    """A point in a square that moves by at most 1 along each axis; a state is (x, y), float32."""

    name = "open"
    action_budget = 50

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.clip(states + SPEED * np.clip(actions, -1, 1), 0, FIELD).astype(np.float32)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.linalg.norm(np.asarray(states, np.float64) - goals, axis=-1)

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return self.distance(states, goals) < NEAR

    def features(self, states: np.ndarray) -> np.ndarray:
        return 2 * np.asarray(states) / FIELD - 1

    def place(self, features: np.ndarray) -> np.ndarray:
        return np.clip((features + 1) * FIELD / 2, 0, FIELD).astype(np.float32)

    def generate_logs(self, episodes: int, seed: int = 0, steps: int = 60) -> Logs:
        rng = generator(seed, "open-logs")
        return wander(self, rng.uniform(0, FIELD, (episodes, 2)).astype(np.float32), 2, steps, rng)

    def evaluation_set(self, name: str) -> EvaluationSet:
        ends = generator(SEEDS[name], "open-evaluation").uniform(0, FIELD, (10 * EPISODES, 2, 2)).astype(np.float32)
        ends = ends[self.distance(ends[:, 0], ends[:, 1]) > APART]
        return evaluation(self, name, ends[:, 0], ends[:, 1])


def middle(states: np.ndarray) -> np.ndarray:
    return np.abs(np.asarray(states)[:, 0] - FIELD / 2) < FIELD / 8
