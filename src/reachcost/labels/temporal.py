"""Temporal pairs: two rows of one logged episode, labelled by the number of steps between them (the gap)."""

from __future__ import annotations

import copy
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.labels.pairs import Pairs, PairSet, require_counts, sample_allowed, split_episodes

AnyPairs = TypeVar("AnyPairs", bound=Pairs)


def balanced(lengths: np.ndarray, rng: Generator, max_gap: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A gap uniform over the episode, or up to a limit, then a uniform start: all time scales are equally frequent."""
    gap = rng.integers(1, lengths if max_gap is None else np.minimum(lengths, max_gap + 1))
    early = rng.integers(0, lengths - gap)
    return early, early + gap


def random_rows(lengths: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two different rows, uniform."""
    one = rng.integers(0, lengths)
    other = (one + rng.integers(1, lengths)) % lengths
    return np.minimum(one, other), np.maximum(one, other)


def mostly_endpoints(lengths: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last row with probability 0.85, otherwise two random rows."""
    early, late = random_rows(lengths, rng)
    ends = rng.random(len(lengths)) < 0.85
    return np.where(ends, 0, early), np.where(ends, lengths - 1, late)


SAMPLERS = {"balanced": balanced, "random-rows": random_rows, "mostly-endpoints": mostly_endpoints}
"""Functions from the episode length of each pair [P] to its earlier and later time [P], [P]."""


class TemporalPairs(Pairs):
    """Pairs of rows of one logged episode, labelled by their gap.

    Args:
        latents: Encoded logs; `latents.without(goals)` excludes evaluation sets.
        count, validation: Number of training pairs and of validation pairs.
        sampling: `balanced` (all gaps equally frequent), `random-rows` or `mostly-endpoints`.
        max_gap: The largest gap of balanced pairs; None for any.
        rows: Number of random log rows to pair; None for all.
        holdout: Share of the episodes for validation pairs alone; with 0 both kinds are from all episodes.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> task = make_task("toponav")
    >>> pairs = TemporalPairs(encode_logs(ExactTopoNav(), task.generate_logs(50)), count=1000, validation=100)
    >>> len(pairs.train), len(pairs.validation)
    (1000, 100)
    """

    def __init__(
        self,
        latents: Latents,
        count: int = 100_000,
        validation: int = 10_000,
        sampling: str = "balanced",
        max_gap: int | None = None,
        rows: int | None = None,
        holdout: float = 0.0,
        seed: int = 0,
    ) -> None:
        require_counts(count, validation, holdout)
        if sampling not in SAMPLERS:
            raise ReachcostError(f"sampling is {sampling!r}: choose one of {', '.join(SAMPLERS)}")
        if max_gap is not None and (max_gap < 1 or sampling != "balanced" or rows is not None):
            raise ReachcostError(f"max_gap is {max_gap}: give 1 or more, with balanced sampling and without rows=")
        if rows is not None and (rows < 2 or holdout):
            raise ReachcostError(f"rows is {rows} with holdout {holdout}: give 2 rows or more, and no holdout")
        exclusion, learned, held_out = split_episodes(latents, holdout, seed)
        self.held_out = held_out if holdout else held_out[:0]
        training = _Rows(latents.logs, learned, rows, seed)
        validating = training if rows else _Rows(latents.logs, held_out, None, seed)
        times = SAMPLERS[sampling] if max_gap is None else partial(balanced, max_gap=max_gap)

        def sample(some: _Rows, number: int, purpose: str, *indices: int) -> PairSet:
            rng = generator(seed, purpose, *indices)

            def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
                episode = rng.choice(len(some.lengths), size=size)
                early, late = (some.offsets[episode] + time for time in times(some.lengths[episode], rng))
                swap = rng.random(size) < 0.5
                return some.rows[np.where(swap, late, early)], some.rows[np.where(swap, early, late)]

            first, second = sample_allowed(number, draw, exclusion.bans)
            gap = np.abs(first - second).astype(np.float32)
            return PairSet(torch.from_numpy(first), torch.from_numpy(second), torch.from_numpy(gap))

        record = {"labels": "temporal", "sampling": sampling, "held_out_episodes": len(self.held_out)}
        super().__init__(
            latents,
            lambda epoch: sample(training, count, "train-pairs", *([epoch] if epoch else [])),
            sample(validating, validation, "validation-pairs"),
            exclusion,
            {**record, "holdout": holdout, "max_gap": max_gap, "rows": rows, "seed": seed},
        )


class _Rows:
    """The rows to pair [N] of some episodes, all or a limited number of random ones, and where each episode begins."""

    def __init__(self, logs: Logs, episodes: np.ndarray, limit: int | None, seed: int) -> None:
        self.rows, self.offsets, self.lengths = np.arange(logs.rows), logs.offsets[episodes], logs.lengths[episodes]
        if limit is not None:
            every = np.flatnonzero(logs.in_episodes(episodes))
            self.rows = np.sort(generator(seed, "rows").choice(every, min(limit, len(every)), replace=False))
            first, counts = np.unique(logs.episode_of(self.rows), return_index=True, return_counts=True)[1:]
            self.offsets, self.lengths = first[counts >= 2], counts[counts >= 2]
        if not len(self.lengths):
            raise ReachcostError(f"no two of {limit} random rows are of one episode: give a larger rows=")


def directed(pairs: AnyPairs) -> AnyPairs:
    """The same temporal pairs with the earlier row first, so that gaps are from a state to a goal."""
    ordered, sample = copy.copy(pairs), pairs._sample
    ordered.train, ordered.validation = forward(pairs.train), forward(pairs.validation)
    ordered._sample = lambda epoch: forward(sample(epoch))
    ordered.record = {**pairs.record, "directed": True}
    return ordered


def forward(pairs: PairSet) -> PairSet:
    """Pairs of rows of one episode, with the earlier row first."""
    return PairSet(torch.minimum(pairs.first, pairs.second), torch.maximum(pairs.first, pairs.second), pairs.gap)
