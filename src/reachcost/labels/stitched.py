"""Stitched pairs: any two logged rows, labelled by the shortest path through all episodes (see `graph.py`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning, require_type
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.graph import TOGETHER, Graph, TransitionCounts, nearest, sharpness
from reachcost.labels.pairs import Pairs, PairSet, require_counts, sample_allowed, split_episodes

PLACES = 6000  # default maximum; the times between all places are kept in memory
ROWS = 10  # fewest rows per place: places must be small, because each may straddle a wall
MAX_PLACES = 20_000  # more would fill the memory
STRIDES = (1, 2, 4, 8, 16)  # possible steps of a transition
SHARP, MIN_SHARPNESS = 5.0, 2.5  # from the first, no longer stride is tried; below the second, labels fail
MAX_UNREACHABLE = 0.1  # share of pairs of places without a path in either direction
SAMPLE = 5000  # transitions to measure the sharpness on
PART = 32 * TOGETHER  # rows between two progress reports, in full groups so that results do not change


def default_recipe(directed: bool) -> Recipe:
    """The default recipe for shortest paths. They have no detours, so the loss does not prefer short times."""
    return Recipe(head="iqe" if directed else "embedding", epochs=16, expectile=0.5)


class GraphPairs(Pairs):
    """Pairs of the rows `training` and `held_out`, labelled by the time between their places [R] in a graph."""

    remedy = "give more logs in which states recur, or more places=, or use temporal labels"

    def __init__(
        self,
        latents: Latents,
        graph: Graph,
        place: np.ndarray,
        training: np.ndarray,
        held_out: np.ndarray,
        count: int,
        validation: int,
        exclusion: Exclusion,
        record: dict[str, Any],
    ) -> None:
        self.graph, self.place = graph, place
        self.default_recipe = default_recipe(graph.record["directed"])

        def sample(rows: np.ndarray, number: int, purpose: str, *indices: int) -> PairSet:
            rng = generator(record["seed"], purpose, *indices)

            def draw(size: int) -> tuple[np.ndarray, ...]:
                first, second = rng.choice(rows, (2, size))
                return first, second, graph.times[place[first], place[second]]

            def refused(first: np.ndarray, second: np.ndarray, gap: np.ndarray) -> np.ndarray:
                return ~np.isfinite(gap) | (gap == 0) | exclusion.bans(first, second)

            return PairSet(*map(torch.from_numpy, sample_allowed(number, draw, refused, self.remedy)))

        super().__init__(
            latents,
            lambda epoch: sample(training, count, "graph-train-pairs", epoch),
            sample(held_out, validation, "graph-validation-pairs"),
            exclusion,
            {**record, **graph.record},
        )
        for problem in self.problems():
            warnings.warn(f"{problem}: {self.remedy}", ReachcostWarning, stacklevel=3)

    @property
    def unconnected(self) -> float:
        """Share of pairs of places without a path in either direction, without places where trajectories only end."""
        others = ~self.graph.ends
        times = self.graph.times[np.ix_(others, others)]
        return float((np.isinf(times) & np.isinf(times.T)).mean()) if others.any() else 1.0

    def problems(self) -> list[str]:
        """Failed validity checks of these labels; empty if they can be trusted."""
        found, sharp = list[str](), self.record["sharpness"]
        if self.unconnected > MAX_UNREACHABLE:
            found.append(f"{100 * self.unconnected:.0f} % of the places have no path between them")
        if sharp < MIN_SHARPNESS:
            found.append(
                f"a transition is only {sharp:.1f} times as long as a place is wide, so that paths jump from one side "
                "of a place to the other"
            )
        return found


class StitchedPairs(GraphPairs):
    """Pairs of any two logged rows, labelled by the shortest time over the transitions of all episodes.

    Arguments not listed are as for `TemporalPairs`; `progress=True` shows progress.

    Args:
        places: Number of places; by default one for 10 rows, at most 6,000, or all different latents if rows repeat.
        stride: Steps of a transition; by default the fewest of 1, 2, 4, 8 and 16 that are long enough.
        least: Fewest occurrences for a transition to count.
        directed: Keep the times of both directions apart; by default the shorter one holds for both.
        holdout: Share of the episodes that are left out of the graph, for validation pairs.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(200))
    >>> pairs = StitchedPairs(latents, count=1000, validation=100)
    >>> pairs.record["stride"], bool((pairs.train.gap >= 1).all())
    (1, True)
    """

    def __init__(
        self,
        latents: Latents,
        count: int = 100_000,
        validation: int = 10_000,
        places: int | None = None,
        stride: int | None = None,
        least: int = 1,
        directed: bool = False,
        holdout: float = 0.1,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> None:
        require_counts(count, validation, holdout)
        require_graph(places=places, stride=stride, least=least)
        exclusion, learned, held_out = split_episodes(latents, holdout, seed)
        logs, progress = latents.logs, as_progress(progress)
        self.held_out = np.sort(held_out) if holdout else held_out[:0]
        in_graph, validated = (logs.in_episodes(part) for part in (learned, held_out))
        centres = _places(latents, np.flatnonzero(in_graph), places, seed)
        steps, sharp = _steps(latents, in_graph, centres, STRIDES if stride is None else (stride,), seed)
        place, used = np.full(logs.rows, -1, np.int32), np.flatnonzero(in_graph | validated)
        for first in progress.track(range(0, len(used), PART), "parts of the logs"):
            part = used[first : first + PART]
            place[part] = nearest(latents.values, centres, part)
        record = {"labels": "stitched", "sharpness": round(sharp, 3), "holdout": holdout}
        super().__init__(
            latents,
            logged_graph(logs, in_graph, place, centres, steps, least, directed),
            place,
            np.flatnonzero(in_graph),
            np.flatnonzero(validated),
            count,
            validation,
            exclusion,
            {**record, "held_out_episodes": len(self.held_out), "seed": seed},
        )


def require_graph(**given: int | None) -> None:
    """Refuse impossible sizes of a graph."""
    for name, value in given.items():
        require_type(value, int | None, name, "give a whole number")
        if value is not None and not 1 <= value <= MAX_PLACES:
            raise ReachcostError(f"{name} is {value}: give a number from 1 to {MAX_PLACES:,}")


def _places(latents: Latents, training: np.ndarray, wanted: int | None, seed: int) -> Tensor:
    """Sample distinct latents as graph nodes, at most `wanted`; by default all of them if rows repeat."""
    sampled = generator(seed, "places").choice(training, min(wanted or PLACES, len(training)), replace=False)
    different = latents.read(sampled).unique(dim=0)
    if wanted or 2 * len(different) <= len(sampled):
        return different
    few = sampled[: max(2, len(training) // ROWS)]
    return latents.read(few).unique(dim=0)


def logged_graph(
    logs: Logs, in_graph: np.ndarray, place: np.ndarray, places: Tensor, steps: int, least: int, directed: bool
) -> Graph:
    """The graph over transitions of `steps` steps in the episodes of some rows, bool [R]."""
    starts = logs.window_starts(steps + 1)
    starts = starts[in_graph[starts]]
    counted = TransitionCounts(len(places))
    counted.add(place[starts], place[starts + steps])
    return Graph(places, counted, steps, least, directed)


def _steps(
    latents: Latents, in_graph: np.ndarray, centres: Tensor, strides: Sequence[int], seed: int
) -> tuple[int, float]:
    """The first stride with sharp transitions, or else the sharpest, and its sharpness."""
    found = list[tuple[float, int]]()
    for steps in strides:
        starts = latents.logs.window_starts(steps + 1)
        starts = starts[in_graph[starts]]
        if not len(starts):
            break
        sample = generator(seed, "transitions").choice(starts, min(SAMPLE, len(starts)), replace=False)
        before, after = (latents.read(rows) for rows in (sample, sample + steps))
        found.append((sharpness(before, after, centres), steps))
        if found[-1][0] >= SHARP:
            return steps, found[-1][0]
    if not found:
        raise ReachcostError(f"no episode has {strides[0]} steps: give a smaller stride=, or longer episodes")
    sharp, steps = max(found)
    return steps, sharp
