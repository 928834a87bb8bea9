"""Statistics of runs: how costs rank candidates, 95 % intervals, and tests. Trials are episodes, not candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from reachcost.core.seeding import generator
from reachcost.errors import ReachcostError

ANALYSIS_SEED = 20260726
RESAMPLES = 100_000
LEVEL = 0.95
KEPT_DRAWS = 50_000_000  # maximum number of counts of resamples that are cached for the next values of the same shape


@dataclass(frozen=True)
class Ranking:
    """How one cost ranks E pools of S candidates, compared with a diagnostic cost."""

    spearman: np.ndarray  # rank correlation with the diagnostic cost, average ranks for ties [E]; 0 if one is constant
    oracle_best_rank: np.ndarray  # % of other candidates that the cost puts strictly before the truly best one [E]
    selected_distance: np.ndarray  # diagnostic cost of the candidate that the cost selects [E]
    top_k: np.ndarray  # diagnostic costs of the k candidates that the cost puts first [E, k]

    def __repr__(self) -> str:
        rank = f"best candidate at {self.oracle_best_rank.mean():.1f} %"
        return f"Ranking({len(self.spearman)} pools; mean rho {self.spearman.mean():.3f}, {rank})"


def compare_rankings(scores: Mapping[str, np.ndarray], diagnostic: np.ndarray, top_k: int = 10) -> dict[str, Ranking]:
    """Compare the order of candidates under each cost [E, S] with their order under the diagnostic cost [E, S].

    >>> diagnostic = np.array([[3.0, 1.0, 2.0]])
    >>> rankings = compare_rankings({"good": 2 * diagnostic, "bad": -diagnostic}, diagnostic, top_k=1)
    >>> float(rankings["good"].spearman[0]), float(rankings["bad"].oracle_best_rank[0])
    (1.0, 100.0)
    """
    _require_scores(scores, diagnostic)
    episodes = np.arange(len(diagnostic))
    others = diagnostic.shape[1] - 1
    true_ranks = ranks(diagnostic)
    best = diagnostic.argmin(1)
    rankings: dict[str, Ranking] = {}
    for name, cost in scores.items():
        order = np.argsort(cost, axis=1, kind="stable")
        before = (cost < cost[episodes, best][:, None]).sum(1)
        rankings[name] = Ranking(
            spearman=correlation(ranks(cost), true_ranks),
            oracle_best_rank=100 * before / others,
            selected_distance=diagnostic[episodes, order[:, 0]],
            top_k=np.take_along_axis(diagnostic, order[:, :top_k], axis=1),
        )
    return rankings


def ranks(values: np.ndarray, method: str = "average") -> np.ndarray:
    """Rank of each number in its row [..., S], from 1; equal numbers share their mean rank, or their `min` or `max`.

    >>> ranks(np.array([7.0, 5.0, 7.0, 9.0]))
    array([2.5, 1. , 2.5, 4. ])
    """
    from scipy.stats import rankdata  # slow to import

    return rankdata(values, method, axis=-1)


def correlation(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Pearson correlation of each row of [N, S] with its counterpart: [N]; 0 if one of them is constant."""
    left = left - left.mean(1, keepdims=True)
    right = right - right.mean(1, keepdims=True)
    norm = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    return np.divide((left * right).sum(1), norm, out=np.zeros(len(left)), where=norm > 0)


def _require_scores(scores: Mapping[str, np.ndarray], diagnostic: np.ndarray) -> None:
    if diagnostic.ndim != 2 or diagnostic.shape[1] < 2:
        raise ReachcostError(f"the diagnostic cost has shape {diagnostic.shape}: give [episodes, candidates >= 2]")
    if (np.isnan(diagnostic) | np.isneginf(diagnostic)).any():
        raise ReachcostError("the diagnostic cost is NaN or -inf somewhere: return numbers, or inf without a path")
    for name, cost in scores.items():
        if cost.shape != diagnostic.shape:
            shapes = f"has shape {cost.shape} but the diagnostic cost has {diagnostic.shape}"
            raise ReachcostError(f"cost {name!r} {shapes}: score the same pool with both")
        if not np.isfinite(cost).all():
            episode, candidate = np.argwhere(~np.isfinite(cost))[0]
            where = f"candidate {candidate} in episode {episode} is {cost[episode, candidate]}"
            raise ReachcostError(f"cost {name!r} of {where}: return finite costs")


def mean_std(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1) over seeds; NaN for the deviation of a single one.

    >>> mean_std(np.array([1.0, 2.0, 3.0]))
    (2.0, 1.0)
    """
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def paired_bootstrap(values: np.ndarray, *, resamples: int = RESAMPLES) -> np.ndarray:
    """Interval of the mean over episodes, whose columns stay together: values [E, ...] -> [2, ...]."""
    return hierarchical_bootstrap(np.asarray(values)[None], resamples=resamples)


def hierarchical_bootstrap(
    values: np.ndarray, *, resamples: int = RESAMPLES, seed: int = ANALYSIS_SEED, shared: bool = False
) -> np.ndarray:
    """Interval of the mean when seeds are resampled, then episodes of each seed: [K, E, ...] -> [2, ...].

    With `shared`, all seeds ran the same episodes, which are resampled once for all seeds.

    >>> constant = np.ones((3, 120, 2))
    >>> hierarchical_bootstrap(constant, resamples=100).shape
    (2, 2)
    """
    values = np.asarray(values, float)
    seeds, episodes = values.shape[:2]
    flat = values.reshape(seeds * episodes, -1)
    counts_of = _kept_draws if resamples * len(flat) <= KEPT_DRAWS else _draws
    means = [counts @ flat / len(flat) for counts in counts_of(seeds, episodes, resamples, seed, shared)]
    return _percentiles(np.concatenate(means), LEVEL).reshape(2, *values.shape[2:])


def _percentiles(resampled: np.ndarray, level: float) -> np.ndarray:
    tail = 50 * (1 - level)
    return np.percentile(resampled, [tail, 100 - tail], axis=0)


def _draws(seeds: int, episodes: int, resamples: int, seed: int, shared: bool) -> Iterator[np.ndarray]:
    """How often each resample contains each value: counts [2000, K * E] of some resamples at a time."""
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
    return [*_draws(seeds, episodes, resamples, seed, shared)]


def clustered_mean(values: np.ndarray, clusters: np.ndarray, *, level: float = LEVEL) -> tuple[float, float]:
    """Interval of the mean of values [N] when clusters [N] of them (episodes) are resampled.

    >>> low, high = clustered_mean(np.arange(100.0), np.arange(100) // 2)
    >>> low < 49.5 < high
    True
    """
    columns = np.stack([values, np.ones(len(values))], axis=1)
    bounds = cluster_bootstrap(columns, clusters, lambda sums: sums[:, 0] / sums[:, 1], resamples=10_000, level=level)
    return float(bounds[0]), float(bounds[1])


def cluster_bootstrap(
    columns: np.ndarray,
    clusters: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    *,
    resamples: int = 2000,
    level: float = LEVEL,
) -> np.ndarray:
    """Interval of a statistic of column sums when clusters of rows (episodes) are resampled: [2, ...].

    Args:
        columns: Columns to sum, rows [N, K].
        clusters: The cluster of each row [N].
        statistic: Maps sums [resamples, K] to [resamples, ...].
        resamples: Number of resamples, each with the original number of clusters.
        level: Level of the interval.
    """
    cluster = np.unique(clusters, return_inverse=True)[1]
    sums = np.stack([np.bincount(cluster, weights=column) for column in np.asarray(columns, float).T], axis=1)
    counts_of = _kept_clusters if resamples * len(sums) <= KEPT_DRAWS else _clusters
    return _percentiles(statistic(counts_of(len(sums), resamples) @ sums), level)


def _clusters(count: int, resamples: int) -> np.ndarray:
    """How often each resample contains each cluster [resamples, count]."""
    rng = generator(ANALYSIS_SEED, "cluster-bootstrap")
    counts = rng.multinomial(count, np.full(count, 1 / count), resamples)
    return counts.astype(np.min_scalar_type(counts.max()))


_kept_clusters = lru_cache(maxsize=4)(_clusters)


def wilson(successes: float, trials: int) -> tuple[float, float]:
    """Wilson score interval of a proportion; `successes` may be a mean over several seeds.

    >>> [round(bound, 3) for bound in wilson(0, 100)]
    [0.0, 0.037]
    """
    z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    share = successes / trials
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * np.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    # Rounding must not push a bound past the share it bounds.
    return float(max(0.0, min(share, centre - half))), float(min(1.0, max(share, centre + half)))


def newcombe(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Interval of the change of a proportion between two arrays of outcomes, both [E], of the same episodes.

    Outcomes are bool, or shares of seeds. Newcombe's method 10 (1998) joins Wilson intervals of both by their
    correlation. Unlike a bootstrap, its width does not become zero if all episodes change alike.

    >>> [round(bound, 2) for bound in newcombe(np.array([False, False]), np.array([True, True]))]
    [0.07, 1.0]
    """
    before, after = np.asarray(before, float), np.asarray(after, float)
    trials, share_before, share_after = len(before), before.mean(), after.mean()
    together = trials * (before * after).sum() - before.sum() * after.sum()
    if together > 0:
        together = max(together - trials / 2, 0)  # Newcombe's correction for continuity
    spread = trials**2 * np.sqrt(share_before * (1 - share_before) * share_after * (1 - share_after))
    correlation = together / spread if spread else 0.0

    def join(one: float, other: float) -> float:
        return float(np.sqrt(one**2 - 2 * correlation * one * other + other**2))

    low_before, high_before = wilson(before.sum(), trials)
    low_after, high_after = wilson(after.sum(), trials)
    change = float(share_after - share_before)
    return (
        change - join(share_after - low_after, high_before - share_before),
        change + join(high_after - share_after, share_before - low_before),
    )
