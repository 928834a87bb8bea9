"""Diagnostic pairs that need the simulator: oracle labels, and the paper's coverage settings.

Heads on oracle labels show what better labels could achieve. A coverage setting is a rule for the logged states that
pairs are sampled from. `limited` leaves out states near the bottleneck. `balanced` takes half of the states and of the
pairs near it, and equally many pairs of each group of the task. `mixed` takes equally many of each. `random` takes
any states. `frames` takes any states, each as a separate episode, without times or order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import Pairs, PairSet, require_counts, require_latents, sample_allowed
from reachcost.tasks.contract import Task, require_task

ANYWHERE = ("mixed", "random", "frames")  # settings that need no bottleneck
SETTINGS = ("limited", "balanced", *ANYWHERE)
FAR, NEAR = 0, 2  # values of `Task.bottleneck`
SAMPLE, PATHS = 6_000, 20  # logged states, and paths of a set, to find a bottleneck that the task does not define
DETOUR = 1.1  # maximum length of a path through a state, divided by the shortest, for the state to be on the path
# Maps both states of pairs [P, ...], [P, ...] to a group number per pair [P].
Groups = Callable[[np.ndarray, np.ndarray], np.ndarray]


class TooFewStates(ReachcostError):
    """The logs have too few states for a setting."""


class OraclePairs(Pairs):
    """Pairs of any two logged rows, labelled by the true distance of the task. Not a repair: it needs the simulator.

    The logs need a column `state`. Pairs without a path from the first to the second row are resampled. `groups` maps
    the states of pairs [P, ...], [P, ...] to group numbers [P], and each group gets equally many. Other arguments are
    as for `TemporalPairs`.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> task = make_task("toponav")
    >>> pairs = OraclePairs(encode_logs(ExactTopoNav(), task.generate_logs(50)), task, count=1000, validation=100)
    >>> pairs.record["labels"]
    'oracle'
    """

    def __init__(
        self,
        latents: Latents,
        task: Task,
        count: int = 100_000,
        validation: int = 10_000,
        seed: int = 0,
        groups: Groups | None = None,
    ) -> None:
        require_latents(latents)
        require_task(task)
        require_counts(count, validation)
        exclusion = Exclusion(latents.logs, latents.excluded)
        if "state" not in latents.logs.columns:
            raise ReachcostError("oracle labels are distances of states, but these logs have no column 'state': add it")
        usable, states = exclusion.require_rows(), latents.logs.columns["state"]

        def sample(number: int, purpose: str, *indices: int) -> PairSet:
            rng = generator(seed, purpose, *indices)

            def draw(size: int) -> tuple[np.ndarray, ...]:
                first, second = rng.choice(usable, (2, size))
                distance = task.distance(np.asarray(states[first]), np.asarray(states[second]))
                return first, second, np.array(distance, np.float32)

            def refused(first: np.ndarray, second: np.ndarray, distance: np.ndarray) -> np.ndarray:
                return exclusion.bans(first, second) | np.isinf(distance)

            # With groups, sample many more pairs, to keep the same number from each group.
            columns = sample_allowed(number if groups is None else 20 * number, draw, refused)
            if groups is not None:
                chosen = _equally_many(groups(*(states[rows] for rows in columns[:2])), number)
                columns = tuple(column[chosen] for column in columns)
            return PairSet(*map(torch.from_numpy, columns))

        super().__init__(
            latents,
            lambda epoch: sample(count, "oracle-train-pairs", epoch),
            sample(validation, "oracle-validation-pairs"),
            exclusion,
            {"labels": "oracle", "sampling": "any-rows", "seed": seed},
        )


def _equally_many(groups: np.ndarray, count: int) -> np.ndarray:
    """Positions of `count` pairs, ascending, the same number from each group up to rounding."""
    found = np.unique(groups)
    wanted = np.diff(np.linspace(0, count, len(found) + 1).astype(int))
    chosen = [np.flatnonzero(groups == group)[:share] for group, share in zip(found, wanted, strict=True)]
    if sum(map(len, chosen)) < count:
        sizes = ", ".join(str(len(part)) for part in chosen)
        raise TooFewStates(f"the groups hold only {sizes} pairs of {count}: give logs with more pairs of each group")
    return np.sort(np.concatenate(chosen))


def covered_latents(latents: Latents, setting: str, task: Task, rows: int | None, seed: int) -> Latents:
    """The part of the logs for a setting, at most `rows` rows, without the source episodes of excluded sets."""
    if setting in ANYWHERE:
        usable = Exclusion(latents.logs, latents.excluded).require_rows()
        location = np.zeros(len(usable), np.int64)
    else:
        usable, location = located_rows(latents, task, seed)
    kept = usable[covered_rows(location, setting, rows, generator(seed, "coverage"))]
    if setting != "frames":
        return latents.keep(kept)
    states = {"state": np.asarray(latents.logs.columns["state"])[kept]}
    frames = Logs(states, np.ones(len(kept), int), latents.logs.observe)
    return replace(latents, values=latents.read(kept), logs=frames)


def located_rows(latents: Latents, task: Task, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows without the source episodes of excluded sets [N], and their values of `Task.bottleneck` [N].

    If the task defines no bottleneck, a sample of the rows is located by the paths of the set excluded last.
    """
    usable, states = Exclusion(latents.logs, latents.excluded).require_rows(), np.asarray(latents.logs.columns["state"])
    if not latents.excluded or task.offers("bottleneck") or not task.offers("distance"):
        return usable, task.bottleneck(states[usable])
    usable = np.sort(generator(seed, "bottleneck").permutation(usable)[:SAMPLE])
    paths = latents.excluded[-1]
    return usable, bottleneck_of_paths(task, states[usable], paths.spread(min(PATHS, len(paths))))


def bottleneck_of_paths(task: Task, states: np.ndarray, paths: EvaluationSet) -> np.ndarray:
    """Values of `Task.bottleneck` for states [N, ...], by the number of paths of an evaluation set that they are on.

    A state is on the path from start to goal if the detour through it is at most a tenth, by the oracle distance. The
    value is 2 for the fifth of the states that are on most paths, ties included. It is 0 for the half of the others
    that are on the fewest paths, and 1 in between.
    """
    # In finite worlds the same states recur.
    different, which = np.unique(states, axis=0, return_inverse=True)
    passing = np.zeros(len(different), np.int64)
    for start, goal, direct in zip(paths.starts, paths.goals, task.distance(paths.starts, paths.goals), strict=True):
        if np.isfinite(direct):
            here, there = (np.broadcast_to(end, different.shape) for end in (start, goal))
            passing += task.distance(here, different) + task.distance(different, there) <= DETOUR * direct
    counts = passing[which.reshape(-1)]
    many = max(1, np.quantile(counts, 0.8))
    others = counts[counts < many]
    few = np.quantile(others, 0.5) if len(others) else -1
    return np.where(counts >= many, NEAR, np.where(counts <= few, FAR, 1))


def covered_rows(bottleneck: np.ndarray, setting: str, count: int | None, rng: Generator) -> np.ndarray:
    """Positions of the states for a setting, ascending, by their values of `Task.bottleneck` [N]."""
    if setting not in SETTINGS:
        raise ReachcostError(f"unknown coverage {setting!r}: choose one of {', '.join(SETTINGS)}")
    near, anywhere = bottleneck == NEAR, np.ones(len(bottleneck), bool)
    parts = {"limited": [bottleneck == FAR], "balanced": [near, ~near]}.get(setting, [anywhere])
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
    """The groups that the setting balances; None if it balances none."""

    def kind(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        masks = task.groups(first, second).values()  # pairs without a group are group 0
        return sum((number * mask for number, mask in enumerate(masks, start=1)), start=np.zeros(len(first), np.int64))

    def kind_and_nearness(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return 2 * kind(first, second) + near_bottleneck(task, first, second)

    return {"balanced": kind_and_nearness if task.offers("bottleneck") else kind, "mixed": kind}.get(setting)


def near_bottleneck(task: Task, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether either state of each pair is near the bottleneck: [P, ...], [P, ...] -> bool [P]."""
    return (task.bottleneck(first) == NEAR) | (task.bottleneck(second) == NEAR)
