"""How much of the doorway a head's pairs see: the paper's coverage settings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from reachcost.errors import ReachcostError
from reachcost.tasks.tworoom import Layout

FAR, NEAR = 95.0, 70.0
"""Pixels to the nearest door: limited coverage keeps this far away; nearer than the other is near."""
Groups = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""States [P, 2] and [P, 2] of pairs to a group number each [P]."""


def doorway_rows(sampling: str, states: np.ndarray, layout: Layout, count: int | None, rng: Generator) -> np.ndarray:
    """Which states [N, 2] the pairs are of: so many of those that qualify, or all; their positions in order.

    >>> rng = np.random.default_rng(0)
    >>> doorway_rows("doorway-limited", np.array([[112.0, 49.0], [112.0, 200.0]]), Layout(), None, rng)
    array([1])
    """
    distance = layout.door_distance(states)
    parts = {
        "doorway-limited": [distance >= FAR],
        "doorway-balanced": [distance <= NEAR, distance > NEAR],
        "doorway-mixed": [distance >= 0],
        "doorway-random": [distance >= 0],
    }
    if sampling not in parts:
        raise ReachcostError(f"unknown coverage {sampling!r}: choose one of {', '.join(parts)}")
    chosen = []
    for part in parts[sampling]:
        rows = np.flatnonzero(part)
        wanted = len(rows) if count is None else count // len(parts[sampling])
        chosen.append(rng.permutation(rows)[:wanted])
    return np.sort(np.concatenate(chosen))


def doorway_groups(sampling: str, layout: Layout) -> Groups | None:
    """Groups of which the pairs hold equally many, if the setting has any."""

    def crosses(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return (layout.room(first) != layout.room(second)).astype(np.int64)

    def crosses_or_nears(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return 2 * crosses(first, second) + near_door(layout, first, second)

    return {"doorway-balanced": crosses_or_nears, "doorway-mixed": crosses}.get(sampling)


def near_door(layout: Layout, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether one end of each pair of states is near a door: [P, 2], [P, 2] -> bool [P]."""
    return np.minimum(layout.door_distance(first), layout.door_distance(second)) <= NEAR
