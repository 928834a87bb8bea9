"""SASC, the selection audit with shared candidates: does a terminal cost rank one fixed pool as the task would?

Every cost scores the same candidates; the diagnostic cost says how far from the goal each one really ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from reachcost.errors import ReachcostError
from reachcost.protocols import Task, TerminalCost, WorldModel


@dataclass(frozen=True)
class Sasc:
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


@torch.no_grad()
def score_pools(
    model: WorldModel, costs: Mapping[str, TerminalCost], context: Tensor, goal: Tensor, pools: Tensor
) -> dict[str, np.ndarray]:
    """Roll the pools [E, S, H, A] out once and score them with every cost -> {name: [E, S]}."""
    terminal = model.rollout(context, pools)
    return {name: cost(terminal, goal).numpy() for name, cost in costs.items()}


def diagnose(task: Task, states: np.ndarray, goals: np.ndarray, pools: np.ndarray) -> np.ndarray:
    """Execute the pools [E, S, H, A] in the simulator and return their oracle distance to the goal [E, S]."""
    episodes, samples, horizon, _ = pools.shape
    here = np.repeat(states, samples, axis=0)
    actions = pools.reshape(episodes * samples, horizon, -1)
    for t in range(horizon):
        here = task.step(here, actions[:, t])
    return task.distance(here, np.repeat(goals, samples, axis=0)).reshape(episodes, samples)


def sasc(scores: Mapping[str, np.ndarray], diagnostic: np.ndarray, top_k: int = 10) -> dict[str, Sasc]:
    """Compare costs with the diagnostic cost on shared pools.

    Args:
        scores: Costs of every candidate by name, each [E, S].
        diagnostic: True cost of every candidate [E, S].
        top_k: How many of the first-ranked candidates to report.

    >>> diagnostic = np.array([[3.0, 1.0, 2.0]])
    >>> result = sasc({"good": 2 * diagnostic, "bad": -diagnostic}, diagnostic, top_k=1)
    >>> float(result["good"].spearman[0]), float(result["bad"].oracle_best_rank[0])
    (1.0, 100.0)
    """
    _require_scores(scores, diagnostic)
    episodes = np.arange(len(diagnostic))
    others = diagnostic.shape[1] - 1
    true_ranks = rankdata(diagnostic, axis=1)
    best = diagnostic.argmin(1)
    result: dict[str, Sasc] = {}
    for name, cost in scores.items():
        order = np.argsort(cost, axis=1, kind="stable")
        before = (cost < cost[episodes, best][:, None]).sum(1)
        result[name] = Sasc(
            spearman=_correlation(rankdata(cost, axis=1), true_ranks),
            oracle_best_rank=100 * before / others,
            selected_distance=diagnostic[episodes, order[:, 0]],
            top_k=np.take_along_axis(diagnostic, order[:, :top_k], axis=1),
        )
    return result


def candidate_rows(
    scores: Mapping[str, np.ndarray], diagnostic: np.ndarray, episodes: np.ndarray
) -> dict[str, np.ndarray]:
    """One row per (cost, episode, candidate), as columns."""
    samples = diagnostic.shape[1]
    return {
        "cost": np.repeat(list(scores), diagnostic.size),
        "episode": np.tile(np.repeat(episodes, samples), len(scores)),
        "candidate": np.tile(np.arange(samples), len(episodes) * len(scores)),
        "score": np.concatenate([score.ravel() for score in scores.values()]),
        "diagnostic": np.tile(diagnostic.ravel(), len(scores)),
    }


def _correlation(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    left = left - left.mean(1, keepdims=True)
    right = right - right.mean(1, keepdims=True)
    norm = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    return np.divide((left * right).sum(1), norm, out=np.zeros(len(left)), where=norm > 0)


def _require_scores(scores: Mapping[str, np.ndarray], diagnostic: np.ndarray) -> None:
    if diagnostic.ndim != 2 or diagnostic.shape[1] < 2:
        raise ReachcostError(f"the diagnostic cost has shape {diagnostic.shape}: give [episodes, candidates >= 2]")
    for name, cost in {"diagnostic": diagnostic, **scores}.items():
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
