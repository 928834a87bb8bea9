"""Gymnasium's mountain car by `GymTask`: the car is too weak for the hill and must first drive away from its goal."""

from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from numpy.random import Generator
from scipy.ndimage import map_coordinates
from scipy.sparse import csr_array

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.tasks.gym import GymTask
from reachcost_paper.worlds.tasks import EPISODES, SEEDS, FeatureTask

LOW, HIGH = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
"""Smallest and largest place and speed."""
NEAR, FAR = 0.05, 40.0
CELLS, GOALS = (121, 101), 61
"""Grid of places and speeds from which times are tabulated, and number of goal places."""
HELD, SETTLED = (2, 6), 0.1
"""Steps for which an arrow holds an action (one step would not leave its cell), and tolerance of times."""
STARTS, LEFT, RIGHT = (-0.8, -0.2), (-1.15, -1.0), (0.4, 0.5)
PUSH, SHAKE = 0.5, 1.0
"""Force of logged cars in the direction they roll, and the deviation of its noise."""


def near(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Whether the place is within 0.05 of the goal, at any speed: bool [N]."""
    return np.abs(np.asarray(states)[:, 0] - np.asarray(goals)[:, 0]) < NEAR


CAR: dict[str, Any] = {
    "make_env": lambda: gymnasium.make("MountainCarContinuous-v0").unwrapped,
    "get_state": lambda env: np.asarray(env.state, np.float32),
    "set_state": lambda env, state: setattr(env, "state", state),
    "success": near,
    "budget": 120,
    "clip": True,
}
"""Arguments of `GymTask`."""


@lru_cache(1)
def times() -> np.ndarray:
    """Fewest steps from each place and speed to within 0.05 of each goal [GOALS, *CELLS], by value iteration.

    Arrows between cells hold an action for some steps and end between four cells.
    """
    car, axes = GymTask(**CAR), [np.linspace(*ends) for ends in zip(LOW, HIGH, CELLS, strict=True)]
    cells = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    arrows = []
    for force in (-1.0, 0.0, 1.0):
        here = cells
        for step in range(1, max(HELD) + 1):
            here = car.step(here, np.full((len(cells), 1), force, np.float32))
            arrows += [(step, _corners(here))] if step in HELD else []
    there = np.abs(cells[:, :1] - np.linspace(LOW[0], HIGH[0], GOALS)) < NEAR
    times_left, before = np.where(there, 0, np.float32(1)), np.zeros(there.shape, np.float32)
    while np.abs(times_left - before).max() > SETTLED:
        before = times_left
        times_left = np.where(there, 0, np.min([step + ends @ before for step, ends in arrows], axis=0))
    return times_left.T.reshape(GOALS, *CELLS)


def _cell(states: np.ndarray) -> np.ndarray:
    """Fractional cell indices of states [N, 2]: [2, N]."""
    return ((np.asarray(states, np.float64) - LOW) / (HIGH - LOW) * (np.array(CELLS) - 1)).T


def _corners(states: np.ndarray) -> csr_array:
    """Bilinear weights of states [N, 2] on the four cells around them [N, cells]."""
    lies = _cell(states)
    low = np.clip(np.floor(lies).astype(int), 0, np.array(CELLS)[:, None] - 2)
    (x, speed), (right, faster) = low, np.clip(lies - low, 0, 1)
    corners = [(east, up) for east in (0, 1) for up in (0, 1)]
    shares = [(right if east else 1 - right) * (faster if up else 1 - faster) for east, up in corners]
    columns = np.concatenate([(x + east) * CELLS[1] + speed + up for east, up in corners])
    shares, rows = np.concatenate(shares), np.tile(np.arange(len(states)), len(corners))
    return csr_array((shares.astype(np.float32), (rows, columns)), shape=(len(states), CELLS[0] * CELLS[1]))


def steps_between(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Fewest steps from states to the places of goals, for any final speed [N]."""
    there = np.round((np.asarray(goals, np.float64)[:, 0] - LOW[0]) / (HIGH - LOW)[0] * (GOALS - 1))
    steps = map_coordinates(times(), np.concatenate([there[None], _cell(states)]), order=1, mode="nearest")
    return np.where(near(states, goals), 0.0, steps)


def pump(states: np.ndarray, rng: Generator) -> np.ndarray:
    """The logged policy: push in the direction the car rolls, with strong noise [N, 1]."""
    push = PUSH * np.sign(states[:, 1:]) + SHAKE * rng.standard_normal((len(states), 1))
    return np.clip(push, -1, 1).astype(np.float32)


def drawn_set(name: str) -> EvaluationSet:
    """Cars at rest in the valley, half of them with a goal on each hill, at least 40 steps away."""
    rng, many = generator(SEEDS[name], "hill-evaluation"), 20 * EPISODES
    starts, goals = np.zeros((2, many, 2), np.float32)
    starts[:, 0] = rng.uniform(*STARTS, many)
    goals[:, 0] = np.where(np.arange(many) % 2, rng.uniform(*LEFT, many), rng.uniform(*RIGHT, many))
    far = np.flatnonzero(steps_between(starts, goals) >= FAR)[:EPISODES]
    return EvaluationSet(starts[far], goals[far], name, SEEDS[name])


class Hill(GymTask, FeatureTask):
    """A state is place and speed, float32, and an action a force; success ignores the speed."""

    distance_unit = "steps"

    def __init__(self) -> None:
        super().__init__(
            **CAR,
            distance=steps_between,
            coordinates=self.features,
            policy=pump,
            length=200,
            sets={name: drawn_set(name) for name in SEEDS},
            name="hill",
            stops_at_success=True,
        )

    def features(self, states: np.ndarray) -> np.ndarray:
        return 2 * (np.asarray(states, np.float64) - LOW) / (HIGH - LOW) - 1

    def place(self, features: np.ndarray) -> np.ndarray:
        return np.clip(LOW + (features + 1) * (HIGH - LOW) / 2, LOW, HIGH).astype(np.float32)


def halfway_up(states: np.ndarray) -> np.ndarray:
    """Swings of medium energy: every route out of the valley leads through them."""
    place, speed = np.asarray(states, np.float64).T
    swing = speed**2 / 2 + 0.0025 / 3 * np.sin(3 * place)
    return np.abs(swing) < 0.0003
