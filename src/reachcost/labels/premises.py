"""Is what a graph takes for granted true? Measured by a second graph, and kept with the labels.

Where a world model walks through walls, imagined ways are much shorter than logged ones between the same places. Where
a gate opens one way, ways back are longer, in the transitions of any half of the episodes.
"""

from __future__ import annotations

import numpy as np

MUCH = 1.5
"""How many times as long a way is that is much longer."""
DENSE, TOO_SPARSE = 0.03, 0.1
"""Share of ways back that one of two graphs misses up to which one that both miss does not exist, and from which
differences between there and back mean nothing."""


def shortcuts(times: np.ndarray, reference: np.ndarray) -> float:
    """The share of pairs [P] with a much shorter time than in the reference.

    In units of the usual ratio, since one graph may be faster than the other everywhere. Pairs that one of them knows
    no way between say nothing.

    >>> logged = np.array([10.0, 20.0, 30.0, 40.0])
    >>> shortcuts(0.5 * logged, logged), shortcuts(np.array([10.0, 20.0, 30.0, 8.0]), logged)
    (0.0, 0.25)
    """
    known = np.isfinite(times) & np.isfinite(reference) & (times > 0) & (reference > 0)
    if not known.any():
        return 0.0
    ratio = times[known] / reference[known]
    return float((ratio * MUCH < np.median(ratio)).mean())


def asymmetry(one: np.ndarray, other: np.ndarray) -> float:
    """How much of a way is the difference between there and back, as far as two graphs of the same places agree on it.

    Args:
        one: Times over the transitions of some episodes, directed [K, K].
        other: Those over the transitions of other episodes [K, K].

    Returns:
        Mean of the product of both differences over mean of the product of both times, as a root: 0 where differences
        are those of chance, which no two graphs share; 0.2 where the way back is a fifth longer or shorter. Where both
        know a way there and none back, the difference is as long as the way, unless ways are missed by chance: then
        one of the graphs alone misses some, too. Where many are, nothing is told, and the answer is 0.

    >>> ring = np.array([[0.0, 1, 2], [2, 0, 1], [1, 2, 0]])
    >>> round(asymmetry(ring, ring), 2)
    0.63
    >>> asymmetry(np.array([[0.0, 1], [np.inf, 0]]), np.array([[0.0, 1], [np.inf, 0]]))
    1.0
    """
    there = np.isfinite(one) & np.isfinite(other) & ~np.eye(len(one), dtype=bool)
    both, never_back = there & there.T, there & np.isinf(one.T) & np.isinf(other.T)
    known, once = int(both.sum()), int(there.sum() - both.sum() - never_back.sum())
    missed = once / (2 * known + once) if once else 0.0
    if missed > TOO_SPARSE or not there.any():
        return 0.0
    (way, back), (others, others_back) = ((times[both], times.T[both]) for times in (one, other))
    certain = (one[never_back] * other[never_back]).sum() if missed <= DENSE else 0.0
    total = (way * others).sum() + certain
    return float(max(((way - back) * (others - others_back)).sum() + certain, 0.0) / total) ** 0.5 if total else 0.0
