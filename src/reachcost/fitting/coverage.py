"""Which places a head's pairs are of: the paper's coverage settings, for any task that tells its bottleneck.

`limited` keeps away from the bottleneck; `balanced` takes half of its states and of its pairs near it, and equally many
pairs of each group of the task; `mixed` equally many pairs of each group; `random` any.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from reachcost.base.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.fitting.pairs import exclude_from
from reachcost.tasks.contract import Task

SETTINGS = ("limited", "balanced", "mixed", "random")
FAR, NEAR = 0, 2
"""What `Task.bottleneck` says of states."""
Groups = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""States [P, ...] and [P, ...] of pairs to a group number each [P]."""


class TooFewStates(ReachcostError):
    """The logs do not hold the states that a setting keeps."""


def covered_latents(
    latents: Latents, setting: str, task: Task, rows: int | None, exclude: EvaluationSet | None, seed: int
) -> Latents:
    """The part of the logs that a setting keeps: so many rows, or all; without the episodes of an excluded set."""
    logs = latents.logs
    banned = exclude_from(logs, exclude).episodes
    usable = np.flatnonzero(~np.isin(logs.episode_of(np.arange(logs.rows)), banned))
    states = np.asarray(logs.columns["state"])[usable]
    return latents.keep(usable[covered_rows(task.bottleneck(states), setting, rows, generator(seed, "coverage"))])


def covered_rows(bottleneck: np.ndarray, setting: str, count: int | None, rng: Generator) -> np.ndarray:
    """Positions of the states that a setting keeps, ascending, by where they lie from the bottleneck [N].

    >>> covered_rows(np.array([2, 0, 1]), "limited", None, np.random.default_rng(0))
    array([1])
    """
    if setting not in SETTINGS:
        raise ReachcostError(f"unknown coverage {setting!r}: choose one of {', '.join(SETTINGS)}")
    anywhere = np.ones(len(bottleneck), bool)
    parts = {"limited": [bottleneck == FAR], "balanced": [bottleneck == NEAR, bottleneck != NEAR]}.get(
        setting, [anywhere]
    )
    chosen = []
    for part in parts:
        found = rng.permutation(np.flatnonzero(part))
        wanted = len(found) if count is None else count // len(parts)
        if len(found) < max(wanted, 1):
            raise TooFewStates(
                f"only {len(found)} of {max(wanted, 1)} states for {setting} coverage: log more episodes"
            )
        chosen.append(found[:wanted])
    return np.sort(np.concatenate(chosen))


def pair_groups(setting: str, task: Task) -> Groups | None:
    """Groups of which the pairs hold equally many, if the setting has any."""

    def kind(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        masks = task.groups(first, second).values()  # pairs of no group are one of their own
        return sum((number * mask for number, mask in enumerate(masks, start=1)), start=np.zeros(len(first), np.int64))

    def kind_and_nearness(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return 2 * kind(first, second) + near_bottleneck(task, first, second)

    return {"balanced": kind_and_nearness, "mixed": kind}.get(setting)


def near_bottleneck(task: Task, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether one end of each pair of states is near the bottleneck: [P, ...], [P, ...] -> bool [P]."""
    return (task.bottleneck(first) == NEAR) | (task.bottleneck(second) == NEAR)
