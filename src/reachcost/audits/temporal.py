"""What the labels are worth: how logged gaps relate to the true distance, by length and by doorway."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import pearsonr, spearmanr

from reachcost.errors import ReachcostError

BANDS = ((1, 10), (11, 25), (26, 50), (51, 75), (76, 100))
"""Gaps in steps, both ends included."""


@dataclass(frozen=True)
class LabelQuality:
    """Correlation of gaps with the true distance over some pairs."""

    pairs: int
    pearson: float
    spearman: float


def label_quality(gaps: np.ndarray, distances: np.ndarray, needs_door: np.ndarray) -> dict[str, LabelQuality]:
    """Compare gaps [P] with distances [P]: all pairs, with and without a door between, and by band of the gap.

    >>> gaps = np.arange(1.0, 101)
    >>> quality = label_quality(gaps, 2 * gaps, gaps > 90)
    >>> quality["all"].pairs, round(quality["gap 1-10"].pearson, 6)
    (100, 1.0)
    """
    subsets = {"all": np.ones(len(gaps), bool), "no door": ~needs_door, "doorway required": needs_door}
    subsets |= {f"gap {low}-{high}": (gaps >= low) & (gaps <= high) for low, high in BANDS}
    quality = {}
    for name, chosen in subsets.items():
        if chosen.sum() < 3:
            raise ReachcostError(f"only {chosen.sum()} pairs are {name!r}: draw more pairs")
        pearson, spearman = (np.asarray(test(gaps[chosen], distances[chosen]))[0] for test in (pearsonr, spearmanr))
        quality[name] = LabelQuality(int(chosen.sum()), float(pearson), float(spearman))
    return quality
