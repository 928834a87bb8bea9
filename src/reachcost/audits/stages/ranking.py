"""Ranking: does the terminal cost rank good candidates first if their true ends are known?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch

from reachcost.audits.measurements import executed
from reachcost.audits.stage import Rule, Stage, apply_rule_to_ratio, compare, unknown
from reachcost.audits.subject import Subject, once
from reachcost.costs.checks import score
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.errors import ReachcostError
from reachcost.fitting.logged_audit import TooFewGoals, logged_audit, logged_pools, some_episodes
from reachcost.fitting.repair import repair
from reachcost.heads.recipe import Recipe
from reachcost.results.stats import clustered_mean, ranks

RULE = Rule(
    "ranking",
    "share of the possible gain",
    0.6,
    True,
    "the terminal cost buries good candidates: fit a head on the logs (reachcost fit) and audit it with --head",
)
# Advice if the cost is already a head.
LEARNED = (
    "this head ranks candidates badly: let the logs choose its labels (reachcost fit) or, on logged times, its recipe "
    "(--recipe auto), log more, or longer episodes"
)
MARGIN = 0.1  # difference between rank correlations on logs that counts as clear
# Rule without an oracle distance.
LOGS_RULE = replace(RULE, measured="correlation, logged times", threshold=-MARGIN, name="ranking-logs")
GOALS = 100  # logged goals to rank states for
# Recipe and training pairs of the reference head, which only shows whether logged times can be learned.
QUICK, PAIRS = Recipe(epochs=3, hidden=128), 30_000


@once
def measure(subject: Subject) -> Stage:
    """How much nearer to the goal the cost's elites end than the pool: 0 is chance, 1 is the order by true distance."""
    advice = LEARNED if subject.heads else RULE.advice
    ends = executed(subject)
    if ends is None or ends.distance is None:
        return _from_logs(subject, replace(subject.rule(LOGS_RULE), advice=advice))
    with torch.no_grad():
        scores = score("audited", subject.cost, ends.true, ends.goal, ends.episodes).cpu().numpy()
    elites = max(1, round(scores.shape[1] * subject.planner.elites / subject.planner.candidates))
    rule = replace(subject.rule(RULE), advice=advice)
    return apply_rule_to_ratio(rule, *ranking_gain(scores, ends.distance, elites), ends.episodes)


def ranking_gain(scores: np.ndarray, distances: np.ndarray, elites: int) -> tuple[np.ndarray, np.ndarray]:
    """How much nearer to the goal the best candidates end than the mean of the pool [E], and the largest such gain [E].

    Args:
        scores: Cost of every candidate [E, S]. Ties are broken at random, and the gain is the mean over that.
        distances: True distance of its end to the goal [E, S]; infinity counts as twice the largest finite one.
        elites: Number of candidates that a planner keeps.
    """
    finite = np.isfinite(distances)
    largest = distances[finite].max() if finite.any() else 0.0
    distances = np.where(finite, distances, 2 * largest)

    def gain(order: np.ndarray) -> np.ndarray:
        return distances.mean(1) - (_chosen(order, elites) * distances).sum(1) / elites

    return gain(scores), gain(distances)


def _chosen(scores: np.ndarray, count: int) -> np.ndarray:
    """Probability of each candidate [E, S] to be among the `count` cheapest if ties are broken at random."""
    first, last = ranks(scores, "min"), ranks(scores, "max")
    return np.clip((count - first + 1) / (last - first + 1), 0, 1)


def _from_logs(subject: Subject, rule: Rule) -> Stage:
    """Rank correlation of the cost with the fastest logged path, minus that of the best reference on the same states.

    The references are latent distance and a head fitted on these logs. The stage fails if one is clearly better, and
    passes if none clearly is. It is unknown if the best reference is hardly better than chance or equals the cost, or
    if the interval contains the threshold.
    """
    unseen = subject.held_out if subject.heads else subject.held_out or subject.latents
    if unseen is None:
        return unknown(rule, "needs --held-out, or a --task with an oracle distance")
    learned, ranked = np.arange(len(subject.latents.logs)), np.arange(len(unseen.logs))
    if unseen is subject.latents:  # the reference must not be evaluated on the episodes that it was fitted on
        learned, ranked = learned[::2], ranked[1::2]
    try:
        pools = logged_pools(unseen, ranked, GOALS)
    except TooFewGoals as error:
        return unknown(rule, str(error))
    costs = {"audited": subject.cost, "raw": LatentMSE()}
    settings = {"pairs": PAIRS, "seed": subject.seed, "references": False}
    with suppress(ReachcostError):  # logs too short for pairs: latent distance remains
        costs["reference"] = HeadCost(repair(None, some_episodes(subject.latents, learned), recipe=QUICK, **settings))
    found = {cost: ranking.spearman for cost, ranking in logged_audit(costs, unseen, pools).items()}
    best = max((cost for cost in found if cost != "audited"), key=lambda cost: found[cost].mean())
    behind = found["audited"] - found[best]
    episodes = unseen.logs.episode_of(pools.goals)
    low, high = clustered_mean(behind, episodes)
    rule = replace(rule, measured=f"logged correlation {found['audited'].mean():.2f}, minus that of {best}")
    stage = compare(rule, float(behind.mean()), (low, high), behind, episodes)
    known = clustered_mean(found[best], episodes)[0] > MARGIN and behind.any()
    if not known or low < rule.threshold <= high:
        why = "logged times do not tell costs apart here: log more episodes, or longer ones that start far from goals"
        return replace(stage, outcome="unknown", advice=why)
    return stage
