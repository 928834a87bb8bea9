"""Which layouts a world model may be trained on, and which ones it is judged by.

A layout of the training logs keeps all its doors away from those of every judged layout of the same wall. A turned wall
is another world, so a door may be trained in one direction and tested in the other.
"""

from __future__ import annotations

import numpy as np

from reachcost.core.seeding import generator
from reachcost.tasks.tworoom.layout import BORDER, SIZE, Layout

HALF = 14.0
"""Half the size of the doors of judged layouts."""
HALVES = (10.0, 20.0)
"""Half the size of the doors of a training layout lies between these: a model that has seen doors of one size alone
knows doors, not edges, and is wrong where no door was."""
APART = 8.0
"""Pixels that centres of doors in the training logs keep from those of judged layouts, at least."""
SECOND = 0.3
"""Share of the layouts with a second door."""
BETWEEN = 8.0
"""Least wall between two doors, in pixels."""
STEP = 0.25
"""Centres and sizes are multiples of this, which float32 holds exactly."""


def one_door(centre: float, turned: bool = False) -> Layout:
    """A wall with one door of the usual size."""
    return Layout(wall="horizontal" if turned else "vertical", doors=((centre, HALF),))


TESTED = {
    "published": one_door(49.0),
    "door-88": one_door(88.0),
    "door-150": one_door(150.0),
    "horizontal-88": one_door(88.0, turned=True),
    "horizontal-120": one_door(120.0, turned=True),
}
"""Layouts of the published table. They were looked at before: after the first time the model was trained longer, after
the second on doors of any size, with a larger network. What to change was seen on those below."""
TUNING = {"door-119": one_door(119.0), "horizontal-50": one_door(50.0, turned=True)}
"""Layouts that choices were made on; they are kept out of training just as well."""


def judged_distance(layout: Layout) -> float:
    """Least distance of the centre of a door to that of one of a judged layout of the same wall, in pixels."""
    judged = [other.doors[0][0] for other in (*TESTED.values(), *TUNING.values()) if other.wall == layout.wall]
    return min(abs(door - other) for door, _ in layout.doors for other in judged)


def training_layout(seed: int, number: int) -> Layout:
    """Draw the layout of that number: either wall, one door or two of a size, anywhere but near judged ones."""
    rng = generator(seed, "tworoom-layout", number)
    wall = "horizontal" if rng.random() < 0.5 else "vertical"
    count = 2 if rng.random() < SECOND else 1
    half = float(_on_grid(rng.uniform(*HALVES)))
    while True:
        doors = np.sort(_on_grid(rng.uniform(BORDER + half, SIZE - BORDER - half, count)))
        layout = Layout(wall=wall, doors=tuple((float(door), half) for door in doors))
        if (np.diff(doors) >= 2 * half + BETWEEN).all() and judged_distance(layout) > APART:
            return layout


def _on_grid(numbers: float | np.ndarray) -> np.ndarray:
    return np.round(np.asarray(numbers) / STEP) * STEP
