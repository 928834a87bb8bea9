"""Quality of labels: how logged gaps correlate with the true distance, by length and by kind of pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.results.ranking import ranks
from reachcost.results.stats import cluster_bootstrap

BANDS = ((1, 10), (11, 25), (26, 50), (51, 75), (76, 100))
"""Bands of gaps in steps, both ends included."""


@dataclass(frozen=True)
class LabelQuality:
    """Correlation of gaps with the true distance over some pairs, with intervals that resample episodes."""

    pairs: int
    pearson: float
    spearman: float
    pearson_interval: tuple[float, float]
    spearman_interval: tuple[float, float]


def label_quality(
    gaps: np.ndarray, distances: np.ndarray, groups: Mapping[str, np.ndarray], episodes: np.ndarray
) -> dict[str, LabelQuality]:
    """Compare gaps [P] with distances [P]: all pairs, groups of them, and by band of the gap.

    Args:
        gaps: Steps between the rows of each pair [P].
        distances: True distance between their states [P].
        groups: Whether each pair belongs to a group, bool [P], by name of the group.
        episodes: Episode of each pair [P].

    >>> gaps = np.arange(1.0, 101)
    >>> quality = label_quality(gaps, 2 * gaps, {"long": gaps > 90}, np.arange(100) // 2)
    >>> quality["all"].pairs, round(quality["gap 1-10"].pearson, 6)
    (100, 1.0)
    """
    subsets = {"all": np.ones(len(gaps), bool), **groups}
    subsets |= {f"gap {low}-{high}": (gaps >= low) & (gaps <= high) for low, high in BANDS}
    quality = {}
    for name, chosen in subsets.items():
        if chosen.sum() < 3:
            raise ReachcostError(f"only {chosen.sum()} pairs are {name!r}: sample more pairs")
        gap, distance, episode = gaps[chosen], distances[chosen], episodes[chosen]
        moments = np.hstack([_moments(gap, distance), _moments(ranks(gap), ranks(distance))])
        (pearson, spearman) = _correlations(moments.sum(0, keepdims=True))[0].tolist()
        bounds = cluster_bootstrap(moments, episode, _correlations).T.tolist()
        quality[name] = LabelQuality(int(chosen.sum()), pearson, spearman, *map(tuple, bounds))
    return quality


def _moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Terms of the correlation of x [P] and y [P]: 1, x, y, x^2, y^2 and x y, standardised [P, 6]."""
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)


def _correlations(totals: np.ndarray) -> np.ndarray:
    """Correlations from sums of several times six moments: [N, K, 6] flat -> [N, K]."""
    count, x, y, xx, yy, xy = np.moveaxis(totals.reshape(len(totals), -1, 6), 2, 0)
    return (count * xy - x * y) / np.sqrt((count * xx - x * x) * (count * yy - y * y))
