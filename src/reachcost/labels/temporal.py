"""Temporal pairs: two rows of one logged episode, labelled by how many steps lie between them (the gap)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import Pairs, PairSet, exclude_from, require_counts, require_latents, split_episodes

Sampler = Callable[[np.ndarray, Generator], tuple[np.ndarray, np.ndarray]]
"""Episode lengths [P], one per wanted pair, to the earlier and later time of each pair [P], [P]."""


def balanced(lengths: np.ndarray, rng: Generator, max_gap: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Gap uniform over the whole episode (or up to a limit), then a uniform start: time scales are seen equally."""
    gap = rng.integers(1, lengths if max_gap is None else np.minimum(lengths, max_gap + 1))
    early = rng.integers(0, lengths - gap)
    return early, early + gap


def random_rows(lengths: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two different rows, uniformly."""
    one = rng.integers(0, lengths)
    other = (one + rng.integers(1, lengths)) % lengths
    return np.minimum(one, other), np.maximum(one, other)


def mostly_endpoints(lengths: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """The first and last row with probability 0.85, otherwise two random rows."""
    early, late = random_rows(lengths, rng)
    ends = rng.random(len(lengths)) < 0.85
    return np.where(ends, 0, early), np.where(ends, lengths - 1, late)


SAMPLERS: dict[str, Sampler] = {
    "balanced": balanced,
    "random-rows": random_rows,
    "mostly-endpoints": mostly_endpoints,
}


class TemporalPairs(Pairs):
    """Pairs of rows of one logged episode, labelled by their gap.

    Args:
        latents: Encoded logs.
        count: Number of training pairs.
        validation: Number of validation pairs.
        sampling: `balanced` (whole horizon), `random-rows` or `mostly-endpoints`.
        max_gap: The largest gap of balanced pairs; by default any.
        rows: Pair only this many random rows of the logs; by default all.
        exclude: Evaluation sets to keep out: no pair has the exact start and goal states of one, in either order, and
            none comes from an episode that a set drawn from logs took a start or goal from. The overlap is measured
            again after sampling and recorded.
        holdout: Share of the episodes that only validation pairs come from; 0 draws both from all episodes.
        seed: Seed of the pairs.

    Attributes:
        held_out: Episodes that no training pair comes from, if `holdout` keeps any.

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
        exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
        holdout: float = 0.0,
        seed: int = 0,
    ) -> None:
        require_latents(latents)
        require_counts(count, validation, holdout)
        _require_settings(sampling, max_gap, rows, latents.logs.rows)
        if rows is not None and holdout:
            raise ReachcostError(f"rows {rows} and holdout {holdout} do not go together: limited rows serve both kinds")
        logs, exclusion = latents.logs, exclude_from(latents.logs, exclude)
        usable = np.setdiff1d(np.flatnonzero(logs.lengths >= 2), exclusion.episodes)
        for_training, for_validation = split_episodes(usable, holdout, seed)
        held_out = len(for_validation) if holdout else 0
        if not len(for_training):
            raise ReachcostError(_nothing_left(logs, exclusion, held_out))
        training = _Rows(logs, for_training, rows, generator(seed, "rows"))
        validating = training if rows else _Rows(logs, for_validation, None, generator(seed, "rows"))
        sampler = SAMPLERS[sampling] if max_gap is None else partial(balanced, max_gap=max_gap)

        self.held_out = for_validation if holdout else np.empty(0, np.int64)

        def draw(epoch: int) -> PairSet:
            return training.pair(count, sampler, exclusion, generator(seed, "train-pairs", *([epoch] if epoch else [])))

        record: dict[str, Any] = {"labels": "temporal", "sampling": sampling, "held_out_episodes": held_out}
        record |= {"holdout": holdout, "max_gap": max_gap, "rows": rows}
        super().__init__(
            latents,
            draw,
            validating.pair(validation, sampler, exclusion, generator(seed, "validation-pairs")),
            exclusion,
            {**record, "seed": seed},
        )


class _Rows:
    """The rows that pairs may use: all rows of some episodes, or a limited number of random ones among them."""

    def __init__(self, logs: Logs, episodes: np.ndarray, limit: int | None, rng: Generator) -> None:
        self._row: np.ndarray | None = None
        self._offsets, self._lengths = logs.offsets[episodes], logs.lengths[episodes]
        if limit is not None:
            every = np.flatnonzero(logs.in_episodes(episodes))
            self._row = np.sort(rng.choice(every, min(limit, len(every)), replace=False))
            owner = logs.episode_of(self._row)
            first, counts = np.unique(owner, return_index=True, return_counts=True)[1:]
            self._offsets, self._lengths = first[counts >= 2], counts[counts >= 2]
        if not len(self._lengths):
            raise ReachcostError(f"no two of {limit} random rows are of one episode: ask for more rows")

    def pair(self, count: int, sampler: Sampler, exclusion: Exclusion, rng: Generator) -> PairSet:
        """Draw pairs, in random order, none of them an evaluation pair."""
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
            f"{len(missing)} pairs were still evaluation pairs after 100 draws: the logs hold little else, "
            "log more episodes or evaluate on other pairs"
        )

    def _log_row(self, position: np.ndarray) -> np.ndarray:
        return position if self._row is None else self._row[position]


def _nothing_left(logs: Logs, exclusion: Exclusion, held_out: int) -> str:
    """What became of all episodes, and what to do about it."""
    names = ", ".join(repr(chosen.name) for chosen in exclusion.sets)
    took = {
        "too short": int((logs.lengths < 2).sum()),
        f"excluded, as they hold a start or goal of {names}": len(exclusion.episodes),
        "held out": held_out,
    }
    told = ", ".join(f"{count} {why}" for why, count in took.items() if count)
    less = ", or exclude less" if len(exclusion.episodes) else ""
    return f"of {len(logs)} episodes none is left to pair ({told}): log more episodes{less}"


def _require_settings(sampling: str, max_gap: int | None, rows: int | None, logged: int) -> None:
    if sampling not in SAMPLERS:
        raise ReachcostError(f"unknown pair sampling {sampling!r}: choose one of {', '.join(SAMPLERS)}")
    if max_gap is not None and (max_gap < 1 or sampling != "balanced" or rows is not None):
        raise ReachcostError(f"max_gap {max_gap} limits balanced pairs of all rows: make it positive, without rows=")
    if rows is not None and not 2 <= rows <= logged:
        raise ReachcostError(f"cannot pair {rows} rows of {logged}: ask for two or more, and no more than are logged")
