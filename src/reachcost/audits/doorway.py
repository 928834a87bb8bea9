"""How much of the doorway a head's pairs see: the paper's coverage settings of TwoRoom.

`limited` keeps away from the door; `balanced` takes half of its states and of its pairs near it, and half of its pairs
across the wall; `mixed` half of its pairs across the wall; `random` any.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from reachcost.base.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.repair.exclusion import Exclusion
from reachcost.tasks.tworoom.layout import Layout

FAR, NEAR = 95.0, 70.0
"""Pixels to the nearest door: limited coverage keeps this far away; nearer than the other is near."""
SETTINGS = ("limited", "balanced", "mixed", "random")
Groups = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""States [P, 2] and [P, 2] of pairs to a group number each [P]."""


def doorway_latents(
    latents: Latents, setting: str, layout: Layout, rows: int | None, exclude: EvaluationSet, seed: int
) -> Latents:
    """The part of the logs that a setting keeps: so many rows, or all; without the episodes of an evaluation set."""
    logs = latents.logs
    banned = Exclusion(logs, [exclude]).episodes
    usable = np.flatnonzero(~np.isin(logs.episode_of(np.arange(logs.rows)), banned))
    states = np.asarray(logs.columns["state"])[usable]
    return latents.keep(usable[doorway_rows(states, setting, layout, rows, generator(seed, "coverage"))])


def doorway_rows(states: np.ndarray, setting: str, layout: Layout, count: int | None, rng: Generator) -> np.ndarray:
    """Positions of the states [N, 2] that a setting keeps, ascending.

    >>> rng = np.random.default_rng(0)
    >>> doorway_rows(np.array([[112.0, 49.0], [112.0, 200.0]]), "limited", Layout(), None, rng)
    array([1])
    """
    if setting not in SETTINGS:
        raise ReachcostError(f"unknown doorway coverage {setting!r}: choose one of {', '.join(SETTINGS)}")
    distance = layout.door_distance(states)
    parts = {"limited": [distance >= FAR], "balanced": [distance <= NEAR, distance > NEAR]}.get(
        setting, [distance >= 0]
    )
    chosen = []
    for part in parts:
        found = rng.permutation(np.flatnonzero(part))
        wanted = len(found) if count is None else count // len(parts)
        if len(found) < max(wanted, 1):
            raise ReachcostError(
                f"only {len(found)} of {max(wanted, 1)} states for {setting} coverage: log more episodes"
            )
        chosen.append(found[:wanted])
    return np.sort(np.concatenate(chosen))


def doorway_groups(setting: str, layout: Layout) -> Groups | None:
    """Groups of which the pairs hold equally many, if the setting has any."""

    def crosses(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return (layout.room(first) != layout.room(second)).astype(np.int64)

    def crosses_or_nears(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return 2 * crosses(first, second) + near_door(layout, first, second)

    return {"balanced": crosses_or_nears, "mixed": crosses}.get(setting)


def near_door(layout: Layout, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether one end of each pair of states is near a door: [P, 2], [P, 2] -> bool [P]."""
    return np.minimum(layout.door_distance(first), layout.door_distance(second)) <= NEAR
