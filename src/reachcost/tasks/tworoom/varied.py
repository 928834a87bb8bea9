"""TwoRoom with a layout in every state: logs of many layouts in one file, for world models that read it from frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

import numpy as np

from reachcost.core.seeding import generator
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import WORLD_COLUMN
from reachcost.data.observations import LazyColumns
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.contract import Task
from reachcost.tasks.tworoom import renderer
from reachcost.tasks.tworoom.layout import SIZE, Layout
from reachcost.tasks.tworoom.split import training_layout
from reachcost.tasks.tworoom.task import TwoRoom

EPISODES = 4
"""Logged episodes of a layout."""


class VariedTwoRoom(Task):
    """TwoRoom in many layouts at once; states are (x, y, turned, door, second door, half), float32.

    `turned` is 1 where the wall is horizontal, `half` is half the size of a door. A wall with one door has it twice.
    Every row lives in its own layout, and nothing but frames tells a world model which.

    Args:
        collision: As for `TwoRoom`.
        pixels: As for `TwoRoom`.

    >>> task = VariedTwoRoom()
    >>> logs = task.generate_logs(episodes=20)
    >>> layouts, which = layouts_of(logs.columns["state"])
    >>> len(layouts), task.coordinates(logs.columns["state"]).shape[1]
    (5, 2)
    """

    name = "varied-tworoom"
    action_budget = TwoRoom.action_budget
    action_dim = 2

    def __init__(self, collision: Literal["endpoint", "swept"] = "endpoint", pixels: int = SIZE) -> None:
        self._world = lru_cache(maxsize=None)(lambda layout: TwoRoom(layout, collision, pixels))
        self.pixels = self._world(Layout()).pixels

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action per state: float [N, 6], [N, 2] -> float32 [N, 6]; layouts stay."""
        moved = np.array(states, np.float32)
        moved[:, :2] = self._each(lambda world, rows: world.step(states[rows, :2], actions[rows]), states, (2,))
        return moved

    def render(self, states: np.ndarray, size: int | None = None) -> np.ndarray:
        """Draw uint8 [N, size, size, 3], each row in its layout."""
        layouts, which = layouts_of(states)
        return renderer.render_each(layouts, which, states[:, :2], self.pixels if size is None else size)

    def observe(self, states: np.ndarray) -> Observations:
        """The columns `state`, `proprio` (the position), `pixels` and `pixels_64`; drawn only when read."""
        return LazyColumns(
            {
                "state": states,
                "proprio": states[:, :2],
                "pixels": lambda: self.render(states),
                "pixels_64": lambda: self.render(states, 64),
            }
        )

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """The position [N, 2]; the layout is for the model to know."""
        return np.asarray(states[:, :2], np.float64)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Approximate geodesic distance in the layout of each state, in pixels [N]."""
        return self._each(lambda world, rows: world.distance(states[rows, :2], goals[rows, :2]), states)

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether the goal is nearer than 16 px."""
        return self._world(Layout()).success(states[..., :2], goals[..., :2])

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        """Episodes that stay in their room, and those that lead through a door."""
        same = self._each(lambda world, rows: world.layout.room(starts[rows]) == world.layout.room(goals[rows]), starts)
        return {"same room": same.astype(bool), "cross wall": ~same.astype(bool)}

    def generate_logs(self, episodes: int = 10_000, seed: int = 0) -> Logs:
        """Log the public data policy, four episodes in each of as many layouts as it takes (see `split.py`)."""
        if episodes < 1:
            raise ReachcostError(f"cannot log {episodes} episodes: ask for at least one")
        parts = []
        for number in range(-(-episodes // EPISODES)):
            layout = training_layout(seed, number)
            own = int(generator(seed, "tworoom-layout-logs", number).integers(2**31))
            logs = self._world(layout).generate_logs(min(EPISODES, episodes - number * EPISODES), own)
            marks = np.repeat(marks_of(layout)[None], logs.rows, axis=0)
            parts.append((np.concatenate([logs.columns["state"], marks], axis=1), logs))
        lengths = np.concatenate([logs.lengths for _, logs in parts])
        kept = ("proprio", "goal_state", "action", "step_idx")
        columns = {
            "state": np.concatenate([states for states, _ in parts]),
            **{name: np.concatenate([logs.columns[name] for _, logs in parts]) for name in kept},
            "episode_idx": np.repeat(np.arange(episodes), lengths),
            WORLD_COLUMN: np.repeat(np.arange(episodes) // EPISODES, lengths),
        }
        return Logs(columns, lengths, self.observe)

    def _each(
        self, ask: Callable[[TwoRoom, np.ndarray], np.ndarray], states: np.ndarray, shape: tuple[int, ...] = ()
    ) -> np.ndarray:
        """What the world of each row answers, asked once for all its rows: [N, *shape]."""
        layouts, which = layouts_of(states)
        answers = np.empty((len(states), *shape), np.float64)
        for number, layout in enumerate(layouts):
            rows = np.flatnonzero(which == number)
            answers[rows] = ask(self._world(layout), rows)
        return answers


def marks_of(layout: Layout) -> np.ndarray:
    """What a state says of its layout, float32 [4]: is the wall turned, first and last door, half their size."""
    (first, half), (last, other) = layout.doors[0], layout.doors[-1]
    if len(layout.doors) > 2 or half != other:
        raise ReachcostError(f"a state has room for one door, or for two of one size, not for {layout.doors}")
    return np.array([layout.wall == "horizontal", first, last, half], np.float32)


def layouts_of(states: np.ndarray) -> tuple[list[Layout], np.ndarray]:
    """The different layouts of states [N, 6], and the number of each row's [N]."""
    if np.ndim(states) != 2 or np.shape(states)[1] != 6:
        raise ReachcostError(f"states here are (x, y, turned, door, second door, half) [N, 6], not {np.shape(states)}")
    marks, which = np.unique(np.asarray(states)[:, 2:], axis=0, return_inverse=True)
    return [_layout(*map(float, mark)) for mark in marks], which.reshape(-1)


@lru_cache(maxsize=8192)
def _layout(turned: float, first: float, last: float, half: float) -> Layout:
    doors = dict.fromkeys([first, last])
    return Layout(wall="horizontal" if turned else "vertical", doors=tuple((door, half) for door in doors))
