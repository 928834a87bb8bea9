"""TwoRoom with a layout in every state, and the split of layouts into training and test layouts.

A training layout keeps its doors away from those of every test layout with the same wall direction. The same door may
be used for training in one direction and for testing in the other.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

import numpy as np

from reachcost.core.seeding import generator
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import WORLD_COLUMN
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.contract import Task, frames_of_two_sizes
from reachcost.tasks.tworoom import renderer
from reachcost.tasks.tworoom.layout import BORDER, SIZE, Layout
from reachcost.tasks.tworoom.task import TwoRoom

EPISODES = 4  # logged episodes per layout
HALF = 14.0  # half-size of the doors of test layouts, in pixels
HALVES = (10.0, 20.0)  # range of the half-size of training doors, in pixels
APART = 8.0  # least distance in pixels between the centres of training and test doors
SECOND = 0.3  # share of the layouts with a second door
BETWEEN = 8.0  # least length of wall between two doors, in pixels
STEP = 0.25  # centres and sizes are multiples of this, which float32 represents exactly


def one_door(centre: float, turned: bool = False) -> Layout:
    """A wall with one door of the public size."""
    return Layout(wall="horizontal" if turned else "vertical", doors=((centre, HALF),))


TESTED = {
    "published": one_door(49.0),
    "door-88": one_door(88.0),
    "door-150": one_door(150.0),
    "horizontal-88": one_door(88.0, turned=True),
    "horizontal-120": one_door(120.0, turned=True),
}
"""Layouts of the published table; docs/tworoom.md (Provenance) lists the changes after their first run."""
TUNING = {"door-119": one_door(119.0), "horizontal-50": one_door(50.0, turned=True)}  # kept out of training, too


def held_out_distance(layout: Layout) -> float:
    """Least distance in pixels between a door and those of test and tuning layouts with the same wall direction."""
    held_out = [other.doors[0][0] for other in (*TESTED.values(), *TUNING.values()) if other.wall == layout.wall]
    return min(abs(door - other) for door, _ in layout.doors for other in held_out)


def training_layout(seed: int, number: int) -> Layout:
    """Sample the layout of that number: either wall, one door or two of one size, none near a test door."""
    rng = generator(seed, "tworoom-layout", number)
    wall = "horizontal" if rng.random() < 0.5 else "vertical"
    count = 2 if rng.random() < SECOND else 1
    half = float(_on_grid(rng.uniform(*HALVES)))
    while True:
        doors = np.sort(_on_grid(rng.uniform(BORDER + half, SIZE - BORDER - half, count)))
        layout = Layout(wall=wall, doors=tuple((float(door), half) for door in doors))
        if (np.diff(doors) >= 2 * half + BETWEEN).all() and held_out_distance(layout) > APART:
            return layout


def _on_grid(numbers: float | np.ndarray) -> np.ndarray:
    return np.round(np.asarray(numbers) / STEP) * STEP


class VariedTwoRoom(Task):
    """TwoRoom in many layouts at once; states are (x, y, turned, door, second door, half), float32.

    `turned` is 1 if the wall is horizontal, `half` is the half-size of the doors. A wall with one door repeats it.
    A world model sees the layout only in the frames.

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
        moved[:, :2] = self._each(lambda world, rows: world.step(states[rows, :2], actions[rows]), states)
        return moved

    def render(self, states: np.ndarray, size: int | None = None) -> np.ndarray:
        """Render uint8 [N, size, size, 3], each row in its layout."""
        layouts, which = layouts_of(states)
        return renderer.render_each(layouts, which, states[:, :2], self.pixels if size is None else size)

    def observe(self, states: np.ndarray) -> Observations:
        """The columns `state`, `proprio` (the position), `pixels` and `pixels_64`; frames are rendered when read."""
        return frames_of_two_sizes(states, states[..., :2], self.render)

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """The position [N, 2], without the layout."""
        return np.asarray(states[:, :2], np.float64)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Approximate geodesic distance in the layout of each state, in pixels [N]."""
        return self._each(lambda world, rows: world.distance(states[rows, :2], goals[rows, :2]), states)

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether the goal is nearer than 16 px."""
        return self._world(Layout()).success(states[..., :2], goals[..., :2])

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        """Episodes within one room, and those through a door."""
        same = self._each(lambda world, rows: world.layout.room(starts[rows]) == world.layout.room(goals[rows]), starts)
        return {"same room": same, "cross wall": ~same}

    def generate_logs(self, episodes: int = 10_000, seed: int = 0) -> Logs:
        """Log the public data policy, four episodes in each training layout; `world_idx` numbers the layouts."""
        if episodes < 1:
            raise ReachcostError(f"cannot log {episodes} episodes: log at least one")
        parts, marks = [], []
        for number in range(-(-episodes // EPISODES)):
            layout = training_layout(seed, number)
            own_seed = int(generator(seed, "tworoom-layout-logs", number).integers(2**31))
            parts.append(self._world(layout).generate_logs(min(EPISODES, episodes - number * EPISODES), own_seed))
            marks.append(np.repeat(marks_of(layout)[None], parts[-1].rows, axis=0))
        lengths = np.concatenate([logs.lengths for logs in parts])
        names = ("state", "proprio", "goal_state", "action", "step_idx")
        columns = {name: np.concatenate([logs.columns[name] for logs in parts]) for name in names}
        columns["state"] = np.concatenate([columns["state"], np.concatenate(marks)], axis=1)
        columns["episode_idx"] = np.repeat(np.arange(episodes), lengths)
        columns[WORLD_COLUMN] = np.repeat(np.arange(episodes) // EPISODES, lengths)
        return Logs(columns, lengths, self.observe)

    def _each(self, ask: Callable[[TwoRoom, np.ndarray], np.ndarray], states: np.ndarray) -> np.ndarray:
        """Call `ask` once per layout with its world and rows, and return its answers in row order."""
        layouts, which = layouts_of(states)
        rows = [np.flatnonzero(which == number) for number in range(len(layouts))]
        answers = [ask(self._world(layout), part) for layout, part in zip(layouts, rows, strict=True)]
        return np.concatenate(answers)[np.argsort(np.concatenate(rows))]


def marks_of(layout: Layout) -> np.ndarray:
    """The part of a state that describes its layout, float32 [4]: turned, first and last door, their half-size."""
    (first, half), (last, other) = layout.doors[0], layout.doors[-1]
    if len(layout.doors) > 2 or half != other:
        raise ReachcostError(f"a state describes one door, or two of one size, not {layout.doors}: use such a layout")
    return np.array([layout.wall == "horizontal", first, last, half], np.float32)


def layouts_of(states: np.ndarray) -> tuple[list[Layout], np.ndarray]:
    """The different layouts of states [N, 6], and the number of each row's layout [N]."""
    if np.ndim(states) != 2 or np.shape(states)[1] != 6:
        known = "(x, y, turned, door, second door, half), [N, 6]"
        raise ReachcostError(f"states have shape {np.shape(states)}: give {known}")
    marks, which = np.unique(np.asarray(states)[:, 2:], axis=0, return_inverse=True)
    return [_layout(*map(float, mark)) for mark in marks], which.reshape(-1)


@lru_cache(maxsize=8192)
def _layout(turned: float, first: float, last: float, half: float) -> Layout:
    doors = tuple((door, half) for door in dict.fromkeys([first, last]))
    return Layout(wall="horizontal" if turned else "vertical", doors=doors)
