"""An open field without obstacles, where latent distance is correct."""

import numpy as np

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost_paper.worlds.tasks import EPISODES, SEEDS, FeatureTask, evaluation, wander

SIDE, SPEED, NEAR = 40.0, 1.0, 2.0
APART = 15.0


class Open(FeatureTask):
    """A point in a square that moves by at most 1 along each axis; a state is (x, y), float32."""

    name = "open"
    action_budget = 50

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.clip(states + SPEED * np.clip(actions, -1, 1), 0, SIDE).astype(np.float32)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.linalg.norm(np.asarray(states, np.float64) - goals, axis=-1)

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return self.distance(states, goals) < NEAR

    def features(self, states: np.ndarray) -> np.ndarray:
        return 2 * np.asarray(states) / SIDE - 1

    def place(self, features: np.ndarray) -> np.ndarray:
        return np.clip((features + 1) * SIDE / 2, 0, SIDE).astype(np.float32)

    def generate_logs(self, episodes: int, seed: int = 0, steps: int = 60) -> Logs:
        rng = generator(seed, "open-logs")
        return wander(self, rng.uniform(0, SIDE, (episodes, 2)).astype(np.float32), 2, steps, rng)

    def evaluation_set(self, name: str) -> EvaluationSet:
        """Starts and goals at least 15 apart."""
        ends = generator(SEEDS[name], "open-evaluation").uniform(0, SIDE, (10 * EPISODES, 2, 2)).astype(np.float32)
        ends = ends[self.distance(ends[:, 0], ends[:, 1]) > APART]
        return evaluation(self, name, ends[:, 0], ends[:, 1])


def middle(states: np.ndarray) -> np.ndarray:
    """A band across the middle."""
    return np.abs(np.asarray(states)[:, 0] - SIDE / 2) < SIDE / 8
