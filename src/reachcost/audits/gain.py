"""How good a cost's order of candidates is, between two references on the same candidates: chance and the truth."""

from __future__ import annotations

import numpy as np

from reachcost.results.ranking import rank_bounds


def ranking_gain(scores: np.ndarray, distances: np.ndarray, elites: int) -> tuple[np.ndarray, np.ndarray]:
    """How much nearer to their goals than the whole pool the elites of a cost are, and those of the truth.

    Args:
        scores: Cost of every candidate [E, S].
        distances: True distance of its end to the goal [E, S]; infinity counts as twice the largest finite one.
        elites: How many candidates a planner keeps.

    Returns:
        Gain of the cost [E] and largest possible gain [E]: 0 is what a random order gains. Ties are broken at random,
        and the mean over that is returned.

    >>> distances = np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> ranking_gain(distances, distances, 2), ranking_gain(np.zeros((1, 4)), distances, 2)
    ((array([1.]), array([1.])), (array([0.]), array([1.])))
    """
    finite = np.isfinite(distances)
    largest = distances[finite].max() if finite.any() else 0.0
    distances = np.where(finite, distances, 2 * largest)
    found, best = (
        (distances.mean(1) - (_chosen(order, elites) * distances).sum(1) / elites) for order in (scores, distances)
    )
    return found, best


def _chosen(scores: np.ndarray, count: int) -> np.ndarray:
    """How probable each candidate [E, S] is among the `count` cheapest, where ties are broken at random."""
    first, last = rank_bounds(scores)
    return np.clip((count - first + 1) / (last - first + 1), 0, 1)
