"""Which places a head's pairs are of: the paper's coverage settings, for any task with a bottleneck or a distance.

`limited` keeps away from the bottleneck; `balanced` takes half of its states and of its pairs near it, and equally many
pairs of each group of the task; `mixed` equally many pairs of each group; `random` any. `frames` takes any states, too,
each as an episode of its own: without times or order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.random import Generator

from reachcost.core.arrays import row_reader
from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.labels.pairs import exclude_from
from reachcost.tasks.contract import Task

FRAMES = "frames"
ANYWHERE = ("mixed", "random", FRAMES)
"""Settings that do not ask where a bottleneck is."""
SETTINGS = ("limited", "balanced", *ANYWHERE)
FAR, NEAR = 0, 2
"""What `Task.bottleneck` says of states."""
SAMPLE, WAYS = 6_000, 20
"""Logged states, and ways of an evaluation set, that tell where a bottleneck is if the task does not."""
DETOUR = 1.1
"""How much longer a way may be through a place that is still on it."""
Groups = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""States [P, ...] and [P, ...] of pairs to a group number each [P]."""


class TooFewStates(ReachcostError):
    """The logs do not hold the states that a setting keeps."""


def covered_latents(
    latents: Latents, setting: str, task: Task, rows: int | None, exclude: EvaluationSet | None, seed: int
) -> Latents:
    """The part of the logs that a setting keeps: so many rows, or all; without the episodes of an excluded set."""
    if setting in ANYWHERE:
        usable = usable_rows(latents, exclude)
        lies = np.zeros(len(usable), np.int64)
    else:
        usable, lies = located_rows(latents, task, exclude, seed)
    kept = usable[covered_rows(lies, setting, rows, generator(seed, "coverage"))]
    return unordered(latents, kept) if setting == FRAMES else latents.keep(kept)


def unordered(latents: Latents, rows: np.ndarray) -> Latents:
    """Some rows as frames that nobody remembers the order of: episodes of one state, without actions.

    >>> import torch
    >>> from reachcost.data.logs import Logs
    >>> latents = Latents(torch.zeros(6, 2), Logs({"state": np.arange(6.0)[:, None]}, lengths=np.array([4, 2])))
    >>> unordered(latents, np.array([0, 1, 5])).logs.lengths.tolist()
    [1, 1, 1]
    """
    states = {"state": np.asarray(latents.logs.columns["state"])[rows]}
    logs = Logs(states, np.ones(len(rows), np.int64), latents.logs.observe)
    return Latents(row_reader(latents.values)(torch.from_numpy(rows)), logs, latents.model)


def usable_rows(latents: Latents, exclude: EvaluationSet | None) -> np.ndarray:
    """Rows of episodes that no excluded set is of [N]."""
    logs = latents.logs
    return np.flatnonzero(~logs.in_episodes(exclude_from(logs, exclude).episodes))


def located_rows(
    latents: Latents, task: Task, exclude: EvaluationSet | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of episodes that no excluded set is of [N], and where their states lie from the bottleneck [N].

    Where the task does not tell, they are some of the rows, and the ways of the excluded set do.
    """
    usable, states = usable_rows(latents, exclude), np.asarray(latents.logs.columns["state"])
    if exclude is None or task.offers("bottleneck") or not task.offers("distance"):
        return usable, task.bottleneck(states[usable])
    usable = np.sort(generator(seed, "bottleneck").permutation(usable)[:SAMPLE])
    return usable, on_the_way(task, states[usable], exclude.spread(min(WAYS, len(exclude))))


def on_the_way(task: Task, states: np.ndarray, ways: EvaluationSet) -> np.ndarray:
    """Where states lie from the places that many ways lead through, found by the oracle distance.

    A state is on a way from start to goal if going there first is a detour of a tenth at most.

    Args:
        task: Measures the distance.
        states: [N, ...].
        ways: Starts and goals.

    Returns:
        As `Task.bottleneck`, int [N]: 2 for the fifth of the states that are on most ways, and those on as many; 0 for
        the half of the others that are on fewest ways; 1 in between.

    >>> from reachcost import make_task
    >>> task = make_task("tworoom")
    >>> doorway_and_corners = np.array([[112.0, 30.0], [20.0, 20.0], [20.0, 205.0], [205.0, 205.0]], np.float32)
    >>> on_the_way(task, doorway_and_corners, task.evaluation_set("high-distance").spread(20)).tolist()
    [2, 0, 0, 0]
    """
    # Finite worlds come to the same states again and again.
    different, which = np.unique(states, axis=0, return_inverse=True)
    passing = np.zeros(len(different), np.int64)
    for start, goal, direct in zip(ways.starts, ways.goals, task.distance(ways.starts, ways.goals), strict=True):
        if np.isfinite(direct):
            here, there = (np.broadcast_to(end, different.shape) for end in (start, goal))
            passing += task.distance(here, different) + task.distance(different, there) <= DETOUR * direct
    counts = passing[which.reshape(-1)]
    many = max(1, np.quantile(counts, 0.8))
    others = counts[counts < many]
    few = np.quantile(others, 0.5) if len(others) else -1
    return np.where(counts >= many, NEAR, np.where(counts <= few, FAR, 1))


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

    return {"balanced": kind_and_nearness if task.offers("bottleneck") else kind, "mixed": kind}.get(setting)


def near_bottleneck(task: Task, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether one end of each pair of states is near the bottleneck: [P, ...], [P, ...] -> bool [P]."""
    return (task.bottleneck(first) == NEAR) | (task.bottleneck(second) == NEAR)
