"""What of a layout can be moved by hand: its first door, and the direction of the wall."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reachcost.errors import ReachcostError
from reachcost.tasks.plane import Handle
from reachcost.tasks.tworoom.layout import BORDER, CENTRE, SIZE, Layout

DOOR, WALL = "door", "wall"
WALLS = ("vertical", "horizontal")
GRIP = 10.0
"""Pixels from the border at which the wall is taken."""


def handles(layout: Layout) -> tuple[Handle, ...]:
    """The first door along its wall, and the wall, taken by its end: it runs down or to the right.

    >>> [handle.place for handle in handles(Layout())]
    [(112.0, 49.0), (112.0, 200.0)]
    """
    centre, half = layout.doors[0]
    low, high = _door_range(half)
    ends = ((CENTRE, low), (CENTRE, high)) if layout.wall == WALLS[0] else ((low, CENTRE), (high, CENTRE))
    door = Handle(DOOR, *ends, min(1.0, max(0.0, (centre - low) / (high - low))))
    edge = SIZE - BORDER - GRIP
    return door, Handle(WALL, (CENTRE, edge), (edge, CENTRE), float(WALLS.index(layout.wall)), len(WALLS))


def moved(layout: Layout, name: str, value: float) -> Layout:
    """The layout with one of these elsewhere, a value from 0 to 1.

    >>> moved(Layout(), "wall", 1.0).wall
    'horizontal'
    """
    if name not in (DOOR, WALL) or not 0 <= value <= 1:
        raise ReachcostError(f"TwoRoom cannot move {name!r} to {value}: move {DOOR} or {WALL}, to a value from 0 to 1")
    (_, half), *others = layout.doors
    low, high = _door_range(half)
    change: dict[str, Any] = {"doors": ((low + value * (high - low), half), *others)}
    return replace(layout, **(change if name == DOOR else {"wall": WALLS[round(value)]}))


def _door_range(half: float) -> tuple[float, float]:
    """Where the centre of a whole door can be, along its wall."""
    return BORDER + half, SIZE - BORDER - half
