"""Temporal pairs: two rows of one logged episode, labelled by the number of steps between them (the gap)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import Pairs, PairSet, require_counts, split_episodes

AnyPairs = TypeVar("AnyPairs", bound=Pairs)
# Maps the episode length of each pair [P] to its earlier and later time [P], [P].
Sampler = Callable[[np.ndarray, Generator], tuple[np.ndarray, np.ndarray]]


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


class TemporalPairs(Pairs):
    """Pairs of rows of one logged episode, labelled by their gap.

    Args:
        latents: Encoded logs.
        count: Number of training pairs.
        validation: Number of validation pairs.
        sampling: `balanced` (all gaps equally frequent), `random-rows` or `mostly-endpoints`.
        max_gap: The largest gap of balanced pairs; None for any.
        rows: Number of random log rows to pair; None for all.
        exclude: Evaluation sets to keep out. No pair has the start and goal state of an evaluation episode, in either
            order. No pair is from a logged episode that provided a start or goal. The record has the measured overlap.
        holdout: Share of the episodes for validation pairs alone; with 0 both kinds are from all episodes.
        seed: Seed of the pairs.

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
        exclude: EvaluationSets = None,
        holdout: float = 0.0,
        seed: int = 0,
    ) -> None:
        require_counts(count, validation, holdout)
        _require_settings(sampling, max_gap, rows, holdout)
        exclusion, learned, held_out = split_episodes(latents, exclude, holdout, seed)
        self.held_out = held_out if holdout else held_out[:0]
        training = _Rows(latents.logs, learned, rows, seed)
        validating = training if rows else _Rows(latents.logs, held_out, None, seed)
        sampler = SAMPLERS[sampling] if max_gap is None else partial(balanced, max_gap=max_gap)

        def sample(epoch: int) -> PairSet:
            return training.pair(count, sampler, exclusion, generator(seed, "train-pairs", *([epoch] if epoch else [])))

        record = {"labels": "temporal", "sampling": sampling, "held_out_episodes": len(self.held_out)}
        super().__init__(
            latents,
            sample,
            validating.pair(validation, sampler, exclusion, generator(seed, "validation-pairs")),
            exclusion,
            {**record, "holdout": holdout, "max_gap": max_gap, "rows": rows, "seed": seed},
        )


class _Rows:
    """The rows to pair: all rows of some episodes, or a limited number of random ones."""

    def __init__(self, logs: Logs, episodes: np.ndarray, limit: int | None, seed: int) -> None:
        self._row: np.ndarray | None = None
        self._offsets, self._lengths = logs.offsets[episodes], logs.lengths[episodes]
        if limit is not None:
            every = np.flatnonzero(logs.in_episodes(episodes))
            chosen = generator(seed, "rows").choice(every, min(limit, len(every)), replace=False)
            self._row = np.sort(chosen)
            owner = logs.episode_of(self._row)
            first, counts = np.unique(owner, return_index=True, return_counts=True)[1:]
            self._offsets, self._lengths = first[counts >= 2], counts[counts >= 2]
        if not len(self._lengths):
            raise ReachcostError(f"no two of {limit} random rows are of one episode: give a larger rows=")

    def pair(self, count: int, sampler: Sampler, exclusion: Exclusion, rng: Generator) -> PairSet:
        """Sample pairs, in random order, without evaluation pairs."""
        first, second = np.empty(count, np.int64), np.empty(count, np.int64)
        missing = np.arange(count)
        for _ in range(100):
            episode = rng.choice(len(self._lengths), size=len(missing))
            early, late = sampler(self._lengths[episode], rng)
            swap = rng.random(len(missing)) < 0.5
            first[missing] = self._log_row(self._offsets[episode] + np.where(swap, late, early))
            second[missing] = self._log_row(self._offsets[episode] + np.where(swap, early, late))
            missing = missing[exclusion.bans(first[missing], second[missing])]
            if not len(missing):
                gap = np.abs(first - second).astype(np.float32)
                return PairSet(torch.from_numpy(first), torch.from_numpy(second), torch.from_numpy(gap))
        raise ReachcostError(
            f"{len(missing)} pairs were still evaluation pairs after 100 attempts: log more episodes, or evaluate on "
            "other pairs"
        )

    def _log_row(self, position: np.ndarray) -> np.ndarray:
        return position if self._row is None else self._row[position]


def _require_settings(sampling: str, max_gap: int | None, rows: int | None, holdout: float) -> None:
    if sampling not in SAMPLERS:
        raise ReachcostError(f"sampling is {sampling!r}: choose one of {', '.join(SAMPLERS)}")
    if max_gap is not None and (max_gap < 1 or sampling != "balanced" or rows is not None):
        raise ReachcostError(f"max_gap is {max_gap}: give 1 or more, with balanced sampling and without rows=")
    if rows is not None and (rows < 2 or holdout):
        raise ReachcostError(f"rows is {rows} with holdout {holdout}: give 2 rows or more, and no holdout")


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
