"""PointMaze of gymnasium-robotics: a ball with momentum in a U; a frame shows its position, not its velocity."""

import warnings
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from numpy.random import Generator
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import KDTree

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost_paper.worlds.tasks import EPISODES, SEEDS, FeatureTask, evaluation, require, wander

SIDE, FASTEST, NEAR = 1.5, 5.0, 0.3
FRAMES, CELLS, MARGIN = 5, 30, 0.1
"""Frames per action, places per side where routes are measured, and how near the centre comes to a wall."""
FAR = 3.0


@lru_cache(1)
def physics() -> Any:
    require("gymnasium_robotics", "momentum")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium.register_envs(import_module("gymnasium_robotics"))
        return gymnasium.make("PointMaze_UMaze-v3").unwrapped


class Momentum(FeatureTask):
    """A state is (x, y) and its velocity, float32; an action is a force along each axis, kept for five frames."""

    name = "momentum"
    action_budget = 60

    def __init__(self) -> None:
        self._walls = np.array(physics().maze.maze_map) == 1
        self._model = physics().point_env.model
        self._data = import_module("mujoco").MjData(self._model)
        self._rollout = import_module("mujoco.rollout").rollout

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Five frames of MuJoCo, all states in one call; velocities are bounded as the environment bounds them."""
        force = np.clip(np.asarray(actions, np.float64), -1, 1)[:, None]
        here = np.asarray(states, np.float64)
        for _ in range(FRAMES):
            here = np.concatenate([np.zeros((len(here), 1)), here[:, :2], np.clip(here[:, 2:], -FASTEST, FASTEST)], 1)
            here = self._rollout(self._model, self._data, here, force)[0][:, -1, 1:5]
        return here.astype(np.float32)

    def free(self, places: np.ndarray) -> np.ndarray:
        """Whether the centre of the ball can be at places [N, 2]."""
        walls, found = self._walls, np.ones(len(places), bool)
        for shift in MARGIN * np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)]):
            row = np.floor(walls.shape[0] / 2 - (places[:, 1] + shift[1])).astype(int)
            column = np.floor(walls.shape[1] / 2 + places[:, 0] + shift[0]).astype(int)
            found &= ~walls[np.clip(row, 0, len(walls) - 1), np.clip(column, 0, len(walls) - 1)]
        return found

    @cached_property
    def _routes(self) -> tuple[KDTree, np.ndarray]:
        """Free places of a grid, and the lengths of the routes between all of them [n, n]."""
        axis = np.linspace(-SIDE, SIDE, CELLS + 1)
        places = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        places = places[self.free(places)]
        tree = KDTree(places)
        edges = tree.sparse_distance_matrix(tree, 1.5 * (axis[1] - axis[0]), output_type="coo_matrix").tocsr()
        return tree, shortest_path(edges, directed=False)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Length of the route, for any velocity; the straight line if both places are close."""
        tree, lengths = self._routes
        here, there = (np.asarray(ends, np.float64)[:, :2] for ends in (states, goals))
        straight = np.linalg.norm(here - there, axis=1)
        (to_here, first), (to_there, last) = tree.query(here), tree.query(there)
        return np.where(straight < NEAR, straight, to_here + lengths[first, last] + to_there)

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether the ball is within 0.3 of the goal, at any velocity."""
        return np.linalg.norm(np.asarray(states)[:, :2] - np.asarray(goals)[:, :2], axis=1) < NEAR

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        return np.asarray(states, np.float64)[:, :2]

    def features(self, states: np.ndarray) -> np.ndarray:
        return np.asarray(states)[:, :2] / SIDE

    def place(self, features: np.ndarray) -> np.ndarray:
        """The ball at rest at that place: features do not contain the velocity."""
        return np.concatenate([SIDE * features, np.zeros_like(features)], axis=1).astype(np.float32)

    def _starts(self, count: int, rng: Generator) -> np.ndarray:
        places = rng.uniform(-SIDE, SIDE, (4 * count, 2))
        places = places[self.free(places)][:count]
        return np.concatenate([places, np.zeros_like(places)], axis=1).astype(np.float32)

    def generate_logs(self, episodes: int, seed: int = 0, steps: int = 100) -> Logs:
        """Forces that change slowly, from rest."""
        rng = generator(seed, "momentum-logs")
        return wander(self, self._starts(episodes, rng), 2, steps, rng)

    def evaluation_set(self, name: str) -> EvaluationSet:
        """From one arm of the U to the other, at rest at both ends."""
        starts, goals = self._starts(40 * EPISODES, generator(SEEDS[name], "momentum-evaluation")).reshape(2, -1, 4)
        far = self.distance(starts, goals) > FAR
        return evaluation(self, name, starts[far], goals[far])


def bend(states: np.ndarray) -> np.ndarray:
    """The bend of the U, between the middles of its arms: every route between the arms leads through."""
    x, y = np.asarray(states)[:, :2].T
    return (x > 0.4) & (np.abs(y) < 1.0)
