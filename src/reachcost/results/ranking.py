"""How costs rank pools of candidates, beside a diagnostic cost that tells how good each candidate really is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reachcost.errors import ReachcostError


@dataclass(frozen=True)
class Ranking:
    """How one cost ranks E pools of S candidates.

    Attributes:
        spearman: Rank correlation with the diagnostic cost, average ranks for ties [E]; 0 where a cost is constant.
        oracle_best_rank: Percentage of other candidates the cost puts strictly before the truly best one [E].
        selected_distance: Diagnostic cost of the candidate the cost selects [E].
        top_k: Diagnostic costs of the k candidates the cost puts first [E, k].
    """

    spearman: np.ndarray
    oracle_best_rank: np.ndarray
    selected_distance: np.ndarray
    top_k: np.ndarray

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


def ranks(values: np.ndarray) -> np.ndarray:
    """Rank of each number in its row [..., S], from 1; equal ones share the mean of theirs.

    >>> ranks(np.array([7.0, 5.0, 7.0, 9.0]))
    array([2.5, 1. , 2.5, 4. ])
    """
    first, last = rank_bounds(values)
    return (first + last) / 2


def rank_bounds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last rank that each number has in its row [..., S] if equal ones are put in any order.

    The same as `scipy.stats.rankdata` finds; to import that takes as long as half of torch.

    >>> rank_bounds(np.array([7, 5, 7, 9]))
    (array([2, 1, 2, 4]), array([3, 1, 3, 4]))
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ascending = np.take_along_axis(values, order, axis=-1)
    rises = ascending[..., 1:] != ascending[..., :-1]
    edge, place = np.ones((*values.shape[:-1], 1), bool), np.arange(1, values.shape[-1] + 1)
    begins, ends = np.concatenate([edge, rises], axis=-1), np.concatenate([rises, edge], axis=-1)
    first, last = np.empty_like(order), np.empty_like(order)
    np.put_along_axis(first, order, np.maximum.accumulate(np.where(begins, place, 0), axis=-1), axis=-1)
    latest = np.where(ends, place, len(place))[..., ::-1]
    np.put_along_axis(last, order, np.minimum.accumulate(latest, axis=-1)[..., ::-1], axis=-1)
    return first, last


def correlation(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Pearson correlation of each row of [N, S] with its counterpart [N]; 0 where one of them is constant."""
    left = left - left.mean(1, keepdims=True)
    right = right - right.mean(1, keepdims=True)
    norm = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    return np.divide((left * right).sum(1), norm, out=np.zeros(len(left)), where=norm > 0)


def _require_scores(scores: Mapping[str, np.ndarray], diagnostic: np.ndarray) -> None:
    if diagnostic.ndim != 2 or diagnostic.shape[1] < 2:
        raise ReachcostError(f"the diagnostic cost has shape {diagnostic.shape}: give [episodes, candidates >= 2]")
    if (np.isnan(diagnostic) | np.isneginf(diagnostic)).any():
        raise ReachcostError("the diagnostic cost is no number somewhere: return numbers, or infinity where no way is")
    for name, cost in scores.items():
        if cost.shape != diagnostic.shape:
            raise ReachcostError(
                f"cost {name!r} has shape {cost.shape} but the diagnostic cost has {diagnostic.shape}: "
                "score the same pool with both"
            )
        if not np.isfinite(cost).all():
            episode, candidate = np.argwhere(~np.isfinite(cost))[0]
            raise ReachcostError(
                f"cost {name!r} of candidate {candidate} in episode {episode} is {cost[episode, candidate]}: "
                "a cost must be finite to be ranked"
            )
