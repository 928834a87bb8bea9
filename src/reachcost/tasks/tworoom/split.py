"""Which layouts a world model may be trained on, and which ones it is judged by.

A layout of the training logs keeps all its doors away from those of every judged layout of the same wall. A turned wall
is another world, so a door may be trained in one direction and tested in the other.
"""

from __future__ import annotations

import numpy as np

from reachcost.base.seeding import generator
from reachcost.tasks.tworoom.layout import BORDER, SIZE, Layout

HALF = 14.0
"""Half the size of every door."""
APART = 8.0
"""Pixels that doors of the training logs keep from those of judged layouts, at least."""
SECOND = 0.3
"""Share of the layouts with a second door."""
BETWEEN = 2 * HALF + 8
"""Least distance of two doors, so that wall is left between them."""
STEP = 0.25
"""Doors are placed on multiples of this, which float32 holds exactly."""


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
"""Layouts of the published table. They were looked at twice: after the first time the model was trained longer."""
TUNING = {"door-119": one_door(119.0), "horizontal-50": one_door(50.0, turned=True)}
"""Layouts that choices were made on; they are kept out of training just as well."""


def judged_distance(layout: Layout) -> float:
    """Least distance of one of its doors to one of a judged layout of the same wall, in pixels."""
    judged = [other.doors[0][0] for other in (*TESTED.values(), *TUNING.values()) if other.wall == layout.wall]
    return min(abs(door - other) for door, _ in layout.doors for other in judged)


def training_layout(seed: int, number: int) -> Layout:
    """Draw the layout of that number: either wall, one door or two, anywhere but near those of judged layouts."""
    rng = generator(seed, "tworoom-layout", number)
    low, high = BORDER + HALF, SIZE - BORDER - HALF
    wall = "horizontal" if rng.random() < 0.5 else "vertical"
    count = 2 if rng.random() < SECOND else 1
    while True:
        doors = np.sort(np.round(rng.uniform(low, high, count) / STEP) * STEP)
        layout = Layout(wall=wall, doors=tuple((float(door), HALF) for door in doors))
        if (np.diff(doors) >= BETWEEN).all() and judged_distance(layout) > APART:
            return layout
