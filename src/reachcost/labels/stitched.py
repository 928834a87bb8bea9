"""Stitched pairs: any two logged rows, labelled by the shortest way over all episodes (see `graph.py`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.core.arrays import row_reader
from reachcost.core.progress import Progress, Rate, as_progress
from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning, require_type
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.graph import TOGETHER, Graph, TransitionCounts, nearest, sharpness
from reachcost.labels.pairs import Pairs, PairSet, exclude_from, require_counts, require_latents, split_episodes

PLACES = 6000
"""The most places of a graph: times between all of them are kept."""
ROWS = 10
"""Rows a place, with fewer of which there are fewer places: each may straddle a wall, so they are small."""
MOST = 20_000
"""Places beyond which times between all of them fill the memory."""
STRIDES = (1, 2, 4, 8, 16)
SHARP, BLURRED = 5.0, 2.5
"""How many times as long as a place is wide a transition should be, and below what ways jump through places."""
LOST = 0.1
"""Share of places without a way between them from which logs leave too much unconnected."""
SAMPLE = 5000
"""Transitions that are looked at for that."""
PART = 32 * TOGETHER
"""Rows whose places are looked for between two signs of progress; whole groups, so that bits stay the same."""


def usual_recipe(directed: bool) -> Recipe:
    """How a head learns shortest ways, unless told otherwise.

    A logged time is that of a detour, so the usual head of logged times leans to short ones; a shortest way is none.

    >>> usual_recipe(directed=True).head, usual_recipe(directed=False).head
    ('iqe', 'embedding')
    """
    return Recipe(head="iqe" if directed else "embedding", epochs=16, expectile=0.5)


class GraphPairs(Pairs):
    """Pairs of any two rows whose places a graph knows, labelled by the time between these.

    Args:
        latents: What the rows are of.
        graph: Places and times between them.
        place: The place of each row [R]; of rows that no pair is of, -1.
        training: Rows that training pairs are of.
        judging: Rows that validation pairs are of.
        count: Number of training pairs.
        validation: Number of validation pairs.
        exclusion: What evaluation sets forbid.
        record: How the graph came about, `seed` among it.

    Attributes:
        graph: Places and times between them.
        place: The place of each row [R], -1 where it was not asked for.
    """

    remedy = "give more logs, in which states come again, or more places=, or take temporal labels"

    def __init__(
        self,
        latents: Latents,
        graph: Graph,
        place: np.ndarray,
        training: np.ndarray,
        judging: np.ndarray,
        count: int,
        validation: int,
        exclusion: Exclusion,
        record: dict[str, Any],
    ) -> None:
        self.graph, self.place = graph, place
        self.usual_recipe = usual_recipe(graph.record["directed"])

        def draw(rows: np.ndarray, number: int, purpose: str, *indices: int) -> PairSet:
            rng = generator(record["seed"], purpose, *indices)
            first, second = rng.choice(rows, (2, number))
            gap = graph.times[place[first], place[second]]
            for _ in range(100):
                again = np.flatnonzero(~np.isfinite(gap) | (gap == 0) | exclusion.bans(first, second))
                if not len(again):
                    return PairSet(*(torch.from_numpy(column) for column in (first, second, gap)))
                first[again], second[again] = rng.choice(rows, (2, len(again)))
                gap[again] = graph.times[place[first[again]], place[second[again]]]
            raise ReachcostError(f"of most rows no way leads to others: {self.remedy}")

        super().__init__(
            latents,
            lambda epoch: draw(training, count, "graph-train-pairs", epoch),
            draw(judging, validation, "graph-validation-pairs"),
            exclusion,
            {**record, **graph.record},
        )
        for doubt in self.doubts():
            warnings.warn(f"{doubt}: {self.remedy}", ReachcostWarning, stacklevel=3)

    @property
    def unconnected(self) -> float:
        """Share of pairs of places between which no way leads, neither there nor back.

        Places where trajectories ended, and nothing began, are left out: they are not known to be cut off.
        """
        others = ~self.graph.ends
        times = self.graph.times[np.ix_(others, others)]
        return float((np.isinf(times) & np.isinf(times.T)).mean()) if others.any() else 1.0

    def doubts(self) -> list[str]:
        """What speaks against these labels, as far as it was measured; nothing if they can be trusted."""
        found, told = list[str](), self.record
        if self.unconnected > LOST:
            found.append(f"{100 * self.unconnected:.0f} % of the places have no way between them")
        if told["sharpness"] < BLURRED:
            found.append(
                f"a transition is only {told['sharpness']:.1f} times as long as a place is wide, so that ways jump "
                "from one side of a place to the other"
            )
        return found


class StitchedPairs(GraphPairs):
    """Pairs of any two logged rows, labelled by the shortest time over a graph of what followed what in all episodes.

    Args:
        latents: Encoded logs.
        count: Number of training pairs.
        validation: Number of validation pairs.
        places: Latents that stand for all others; by default one for 10 rows, at most 6,000, or all there are where
            rows repeat the same ones.
        stride: Steps of a transition; by default the fewest of 1, 2, 4, 8 and 16 that lead far enough out of a place.
        least: How often a transition must be seen to count.
        directed: Keep times there and back apart; by default the shorter one holds for both.
        exclude: Evaluation sets to keep out, as for `TemporalPairs`.
        holdout: Share of the episodes whose transitions are not in the graph; validation pairs are of their rows.
        seed: Seed of places and pairs.
        progress: True shows how far it is.

    Attributes:
        held_out: Episodes that are held out.

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
        exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
        holdout: float = 0.1,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> None:
        require_latents(latents)
        require_counts(count, validation, holdout)
        require_graph(places=places, stride=stride, least=least)
        progress = as_progress(progress)
        logs, exclusion = latents.logs, exclude_from(latents.logs, exclude)
        usable = np.setdiff1d(np.flatnonzero(logs.lengths >= 2), exclusion.episodes)
        learning, judging = split_episodes(usable, holdout, seed)
        if not len(learning):
            raise ReachcostError(f"of {len(logs)} episodes {len(usable)} can be stitched: log more, or exclude less")
        self.held_out = np.sort(judging) if holdout else np.empty(0, np.int64)
        in_graph, judged = (logs.in_episodes(part) for part in (learning, judging))
        centres = _places(latents, np.flatnonzero(in_graph), places, seed)
        steps, sharp = _steps(latents, in_graph, centres, STRIDES if stride is None else (stride,), seed)
        place, used = np.full(logs.rows, -1, np.int32), np.flatnonzero(in_graph | judged)
        place[used] = _places_of(latents, used, centres, progress)
        record = {"labels": "stitched", "sharpness": round(sharp, 3), "holdout": holdout}
        super().__init__(
            latents,
            logged_graph(logs, in_graph, place, centres, steps, least, directed, progress),
            place,
            np.flatnonzero(in_graph),
            np.flatnonzero(judged),
            count,
            validation,
            exclusion,
            {**record, "held_out_episodes": len(self.held_out), "seed": seed},
        )


def require_graph(**given: int | None) -> None:
    """Refuse numbers that no graph can have."""
    for name, value in given.items():
        require_type(value, int | None, name, "give a whole number")
        if value is not None and not 1 <= value <= MOST:
            raise ReachcostError(f"{name} is {value}: give a number from 1 to {MOST:,}")


def _places(latents: Latents, training: np.ndarray, wanted: int | None, seed: int) -> Tensor:
    """Different latents of some rows, at most as many as wanted; by default all where rows repeat the same ones."""
    drawn = generator(seed, "places").choice(training, min(wanted or PLACES, len(training)), replace=False)
    different = row_reader(latents.values)(torch.from_numpy(drawn)).unique(dim=0)
    if wanted or 2 * len(different) <= len(drawn):
        return different
    few = drawn[: max(2, len(training) // ROWS)]
    return row_reader(latents.values)(torch.from_numpy(few)).unique(dim=0)


def _places_of(latents: Latents, rows: np.ndarray, places: Tensor, progress: Progress) -> np.ndarray:
    """The place of each of some rows [N] -> int32 [N]."""
    found, rate = np.empty(len(rows), np.int32), Rate(progress, "states")
    for first in progress.track(range(0, len(rows), PART), "parts of the logs"):
        part = rows[first : first + PART]
        found[first : first + PART] = nearest(latents.values, places, part)
        rate.add(len(part))
    return found


def logged_graph(
    logs: Logs,
    in_graph: np.ndarray,
    place: np.ndarray,
    places: Tensor,
    steps: int,
    least: int,
    directed: bool,
    progress: Progress | None = None,
) -> Graph:
    """The graph of what followed so many steps later in the episodes of some rows, bool [R], whose places are known."""
    starts = _starts(logs, in_graph, steps)
    counted = TransitionCounts(len(places))
    counted.add(place[starts], place[starts + steps])
    return Graph.of(places, counted, steps, least, directed, progress)


def _starts(logs: Logs, in_graph: np.ndarray, steps: int) -> np.ndarray:
    """Rows of the graph that a row of their episode follows so many steps later."""
    starts = logs.window_starts(steps + 1)
    return starts[in_graph[starts]]


def _steps(
    latents: Latents, in_graph: np.ndarray, centres: Tensor, strides: Sequence[int], seed: int
) -> tuple[int, float]:
    """The first of some strides whose transitions are sharp, or the sharpest, and how sharp they are."""
    found = list[tuple[float, int]]()
    for steps in strides:
        starts = _starts(latents.logs, in_graph, steps)
        if not len(starts):
            break
        sample = generator(seed, "transitions").choice(starts, min(SAMPLE, len(starts)), replace=False)
        before, after = (row_reader(latents.values)(torch.from_numpy(rows)) for rows in (sample, sample + steps))
        found.append((sharpness(before, after, centres), steps))
        if found[-1][0] >= SHARP:
            return steps, found[-1][0]
    if not found:
        raise ReachcostError(f"no episode has {strides[0]} steps: give a smaller stride=, or longer episodes")
    sharp, steps = max(found)
    return steps, sharp
