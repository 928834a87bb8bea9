"""Statistics as plain functions on arrays [seeds, episodes, ...]; candidates are never treated as independent.

All intervals are 95 % percentile intervals unless `level` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from statistics import NormalDist

import numpy as np

from reachcost.core.seeding import generator

ANALYSIS_SEED = 20260726
RESAMPLES = 100_000
KEPT_DRAWS = 50_000_000
"""Bytes of draws, at most, that are kept for the next values of the same shape."""


def mean_std(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1) over seeds; the latter is undefined (NaN) for a single one.

    >>> mean_std(np.array([1.0, 2.0, 3.0]))
    (2.0, 1.0)
    """
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def paired_bootstrap(
    values: np.ndarray, *, resamples: int = RESAMPLES, seed: int = ANALYSIS_SEED, level: float = 0.95
) -> np.ndarray:
    """Interval of the mean over episodes, resampled with replacement: values [E, ...] -> [2, ...].

    All trailing columns of an episode are drawn together, so columns (and their differences) stay paired.
    """
    return hierarchical_bootstrap(np.asarray(values)[None], resamples=resamples, seed=seed, level=level)


def hierarchical_bootstrap(
    values: np.ndarray,
    *,
    resamples: int = RESAMPLES,
    seed: int = ANALYSIS_SEED,
    level: float = 0.95,
    shared: bool = False,
) -> np.ndarray:
    """Interval of the mean when seeds are resampled first, then episodes inside each: [K, E, ...] -> [2, ...].

    With `shared`, all seeds met the same episodes, so a resample draws episodes once for all of them: repeating an
    episode under more seeds then adds no certainty about other episodes.

    >>> constant = np.ones((3, 120, 2))
    >>> hierarchical_bootstrap(constant, resamples=100).shape
    (2, 2)
    """
    values = np.asarray(values, float)
    seeds, episodes = values.shape[:2]
    flat = values.reshape(seeds * episodes, -1)
    drawn = _kept_draws if resamples * len(flat) <= KEPT_DRAWS else _draws
    means = [counts @ flat / len(flat) for counts in drawn(seeds, episodes, resamples, seed, shared)]
    tail = 50 * (1 - level)
    return np.percentile(np.concatenate(means), [tail, 100 - tail], axis=0).reshape(2, *values.shape[2:])


def _draws(seeds: int, episodes: int, resamples: int, seed: int, shared: bool) -> Iterator[np.ndarray]:
    """How often each resample drew each value: counts [2000, K * E], and so on."""
    rng = generator(seed, "bootstrap")
    for start in range(0, resamples, 2000):
        size = min(2000, resamples - start)
        chosen_seed = rng.integers(seeds, size=(size, seeds, 1), dtype=np.int32)
        draws = rng.integers(episodes, size=(size, 1 if shared else seeds, episodes), dtype=np.int32)
        chosen = chosen_seed * episodes + draws
        chosen += np.arange(size, dtype=np.int32)[:, None, None] * (seeds * episodes)
        counts = np.bincount(chosen.ravel(), minlength=size * seeds * episodes).reshape(size, -1)
        yield counts.astype(np.min_scalar_type(counts.max()))


@lru_cache(maxsize=4)
def _kept_draws(seeds: int, episodes: int, resamples: int, seed: int, shared: bool) -> list[np.ndarray]:
    """The same draws for all values of one shape: a table would spend most of its time on drawing them again."""
    return [*_draws(seeds, episodes, resamples, seed, shared)]


def clustered_mean(values: np.ndarray, clusters: np.ndarray, *, level: float = 0.95) -> tuple[float, float]:
    """Interval of the mean of values [N] when whole clusters [N] of them (episodes) are resampled.

    >>> low, high = clustered_mean(np.arange(100.0), np.arange(100) // 2)
    >>> low < 49.5 < high
    True
    """
    columns = np.stack([values, np.ones(len(values))], axis=1)
    low, high = cluster_bootstrap(
        columns, clusters, lambda sums: sums[:, 0] / sums[:, 1], resamples=10_000, level=level
    )
    return float(low), float(high)


def cluster_bootstrap(
    columns: np.ndarray,
    clusters: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    *,
    resamples: int = 2000,
    seed: int = ANALYSIS_SEED,
    level: float = 0.95,
) -> np.ndarray:
    """Interval of a statistic of column sums when whole clusters of rows (episodes) are resampled: -> [2, ...].

    Args:
        columns: What is summed, rows [N, K].
        clusters: The cluster of each row [N].
        statistic: What to make of sums [resamples, K] -> [resamples, ...].
        resamples: How often to draw as many clusters as there are.
        seed: Of the draws.
        level: Of the interval.

    >>> columns = np.stack([np.arange(100.0), np.ones(100)], axis=1)
    >>> low, high = cluster_bootstrap(columns, np.arange(100) // 2, lambda sums: sums[:, 0] / sums[:, 1])
    >>> bool(low < 49.5 < high)
    True
    """
    cluster = np.unique(clusters, return_inverse=True)[1]
    sums = np.stack([np.bincount(cluster, weights=column) for column in np.asarray(columns, float).T], axis=1)
    drawn = _kept_clusters if resamples * len(sums) <= KEPT_DRAWS else _clusters
    tail = 50 * (1 - level)
    return np.percentile(statistic(drawn(len(sums), resamples, seed) @ sums), [tail, 100 - tail], axis=0)


def _clusters(count: int, resamples: int, seed: int) -> np.ndarray:
    """How often each resample drew each cluster [resamples, count]."""
    counts = generator(seed, "cluster-bootstrap").multinomial(count, np.full(count, 1 / count), resamples)
    return counts.astype(np.min_scalar_type(counts.max()))


_kept_clusters = lru_cache(maxsize=4)(_clusters)


def sign_flip_test(differences: np.ndarray) -> float:
    """Exact two-sided paired sign-flip p-value over K differences.

    >>> sign_flip_test(np.array([69.17, 71.67, 76.67]))
    0.25
    """
    differences = np.asarray(differences, float)
    signs = np.array(list(product((-1, 1), repeat=len(differences))))
    flipped = np.abs(signs @ differences)
    rounding = 1e-9 * np.abs(differences).sum()
    return float((flipped >= abs(differences.sum()) - rounding).mean())


def wilson(successes: float, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a proportion; a mean over several raters may be no whole number of successes.

    >>> [round(bound, 3) for bound in wilson(0, 100)]
    [0.0, 0.037]
    """
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = successes / trials
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * np.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    # Rounding must not push a bound past the share it bounds.
    return float(max(0.0, min(share, centre - half))), float(min(1.0, max(share, centre + half)))


def newcombe(before: np.ndarray, after: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Interval of the change of a proportion between outcomes [E], [E] of the same episodes: bool, or shares of raters.

    Newcombe's method 10 (1998): Wilson intervals of both, joined by their correlation. Unlike a bootstrap, it does not
    become certain when few episodes all change alike.

    >>> [round(bound, 2) for bound in newcombe(np.array([False, False]), np.array([True, True]))]
    [0.07, 1.0]
    """
    before, after = np.asarray(before, float), np.asarray(after, float)
    trials, share_before, share_after = len(before), before.mean(), after.mean()
    together = trials * (before * after).sum() - before.sum() * after.sum()
    if together > 0:
        together = max(together - trials / 2, 0)  # his correction for continuity
    spread = trials**2 * np.sqrt(share_before * (1 - share_before) * share_after * (1 - share_after))
    correlation = together / spread if spread else 0.0

    def join(one: float, other: float) -> float:
        return float(np.sqrt(one**2 - 2 * correlation * one * other + other**2))

    low_before, high_before = wilson(before.sum(), trials, level)
    low_after, high_after = wilson(after.sum(), trials, level)
    change = float(share_after - share_before)
    return (
        change - join(share_after - low_after, high_before - share_before),
        change + join(high_after - share_after, share_before - low_before),
    )
