"""An arm of two joints among obstacles: angles wrap around, and the straight motion is often blocked."""

from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost_paper.worlds.tasks import EPISODES, SEEDS, FeatureTask, evaluation, logs_until

TURN, SPEED, NEAR = 2 * np.pi, 0.12, 0.25
FINE, COARSE, ALONG = 180, 36, 40
"""Angles per turn of the table of contacts and of the graph of routes, and postures along a straight motion."""
DISCS = np.array([(1.3, 0.5, 0.3), (-0.9, -1.0, 0.3)])
"""Obstacles: x, y and radius; the shoulder is at the origin, both links have length 1."""
FAR, NOWHERE, DOUBLE = 20.0, 99.0, 0.5
AROUND = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y])


def touching(states: np.ndarray) -> np.ndarray:
    """Whether the arm touches an obstacle: joint angles [N, 2] -> bool [N]."""
    shoulder, bend = np.asarray(states, np.float64).T
    elbow = np.stack([np.cos(shoulder), np.sin(shoulder)], axis=1)
    hand = elbow + np.stack([np.cos(shoulder + bend), np.sin(shoulder + bend)], axis=1)
    along = np.linspace(0, 1, 21)[:, None, None]
    points = np.concatenate([along * elbow, elbow + along * (hand - elbow)])
    return (np.linalg.norm(points[:, :, None] - DISCS[:, :2], axis=-1) < DISCS[:, 2]).any((0, 2))


def grid(side: int) -> np.ndarray:
    """All pairs of angles, `side` per turn: [side * side, 2]."""
    angles = np.arange(side) * TURN / side - np.pi
    return np.stack(np.meshgrid(angles, angles, indexing="ij"), axis=-1).reshape(-1, 2)


def straight_steps(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Steps of the slower joint without obstacles [...]."""
    turn = (np.asarray(states, np.float64) - goals + np.pi) % TURN - np.pi
    return np.abs(turn).max(-1) / SPEED


class Arm(FeatureTask):
    """Joints turn by at most 0.12 rad a step unless the arm would touch an obstacle; a state is two angles, float32."""

    name = "arm"
    action_budget = 120
    distance_unit = "steps"

    def __init__(self) -> None:
        self._blocked = touching(grid(FINE)).reshape(FINE, FINE)

    def free(self, states: np.ndarray) -> np.ndarray:
        cells = np.round((np.asarray(states, np.float64) + np.pi) * FINE / TURN).astype(int) % FINE
        return ~self._blocked[cells[:, 0], cells[:, 1]]

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        turned = (states + SPEED * np.clip(actions, -1, 1) + np.pi) % TURN - np.pi
        turned = turned.astype(np.float32)
        return np.where(self.free(turned)[:, None], turned, states)

    @cached_property
    def _hops(self) -> np.ndarray:
        """Steps between all pairs of coarse angles, 99 if there is no route [n, n]."""
        places, free = grid(COARSE), self.free(grid(COARSE))
        cells = np.arange(COARSE**2)
        ends = (np.stack(np.divmod(cells, COARSE), axis=1)[:, None] + AROUND) % COARSE @ np.array([COARSE, 1])
        half = places[:, None] + AROUND * (TURN / COARSE / 2)
        passes = free[:, None] & free[ends] & self.free(half.reshape(-1, 2)).reshape(ends.shape)
        edges = csr_array((np.ones(passes.sum()), (np.nonzero(passes)[0], ends[passes])), shape=(len(cells),) * 2)
        hops = shortest_path(edges, unweighted=True).astype(np.float32) * (TURN / COARSE / SPEED)
        return np.where(np.isfinite(hops) & free[:, None] & free, hops, NOWHERE).astype(np.float32)

    def _corners(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The coarse angles around states [N, 2]: their numbers and steps to them, both [N, 4]."""
        low = np.floor((np.asarray(states, np.float64) + np.pi) * COARSE / TURN).astype(int)
        corners = low[:, None] + np.array([(0, 0), (0, 1), (1, 0), (1, 1)])
        steps = straight_steps(corners * TURN / COARSE - np.pi, np.asarray(states)[:, None])
        return corners % COARSE @ np.array([COARSE, 1]), steps

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Steps of the straight motion if it is free, else along coarse angles around the obstacles."""
        (here, to_here), (there, to_there) = self._corners(states), self._corners(goals)
        routes = to_here[:, :, None] + self._hops[here[:, :, None], there[:, None]] + to_there[:, None]
        turn = (np.asarray(goals, np.float64) - states + np.pi) % TURN - np.pi
        along = states + np.linspace(0, 1, ALONG)[:, None, None] * turn
        free = np.all(self.free(along.reshape(-1, 2)).reshape(ALONG, -1), axis=0)
        return np.where(free, straight_steps(states, goals), routes.min((1, 2)))

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        return self.features(states)[:, :4]

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether both joints are within a quarter of a radian."""
        return straight_steps(states, goals) * SPEED < NEAR

    def features(self, states: np.ndarray) -> np.ndarray:
        angles = np.asarray(states, np.float64)
        waves = [np.cos(angles), np.sin(angles), DOUBLE * np.cos(2 * angles), DOUBLE * np.sin(2 * angles)]
        return np.concatenate(waves, axis=1)

    def place(self, features: np.ndarray) -> np.ndarray:
        return np.arctan2(features[:, 2:4], features[:, :2]).astype(np.float32)

    def generate_logs(self, episodes: int, seed: int = 0, steps: int = 60, noise: float = 0.5) -> Logs:
        """Arms that move from one posture to another, with noise, until they arrive or time is up."""
        rng = generator(seed, "arm-logs")
        postures = rng.uniform(-np.pi, np.pi, (8 * episodes, 2)).astype(np.float32)
        here, goals = postures[self.free(postures)][: 2 * episodes].reshape(2, episodes, 2)
        states, taken = [here], []
        for _ in range(steps):
            after = self.step(np.repeat(here, len(AROUND), axis=0), np.tile(AROUND, (episodes, 1)))
            left = self.distance(after, np.repeat(goals, len(AROUND), axis=0)).reshape(episodes, -1)
            heading = AROUND[left.argmin(1)] + noise * rng.standard_normal((episodes, 2))
            taken.append(np.clip(heading, -1, 1).astype(np.float32))
            here = self.step(here, taken[-1])
            states.append(here)
        path = np.stack(states, axis=1)
        return logs_until(self, path, np.stack(taken, axis=1), self.success(path, goals[:, None]))

    def evaluation_set(self, name: str) -> EvaluationSet:
        """Starts and goals at least 20 steps apart, and more than without the obstacles."""
        ends = generator(SEEDS[name], "arm-evaluation").uniform(-np.pi, np.pi, (100 * EPISODES, 2, 2))
        starts, goals = ends.astype(np.float32).transpose(1, 0, 2)
        route, straight = self.distance(starts, goals), straight_steps(starts, goals)
        fit = self.free(starts) & self.free(goals) & (route >= FAR) & (route < NOWHERE) & (route > 1.2 * straight)
        return evaluation(self, name, starts[fit], goals[fit])


def level(states: np.ndarray) -> np.ndarray:
    """The upper arm about level, on either side: every route from above to below passes one of them."""
    return np.abs(np.sin(np.asarray(states)[:, 0])) < 0.3
