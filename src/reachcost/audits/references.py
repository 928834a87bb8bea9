"""References for a cost that only logs can judge: latent distance, and a head that learns from these logs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from reachcost.audits.stage import Rule, Stage, compare
from reachcost.audits.subject import Subject
from reachcost.costs.head import HeadCost
from reachcost.costs.latent import LatentMSE
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.fitting.default import repair_latents
from reachcost.fitting.logged import logged_audit, logged_pools
from reachcost.fitting.pools import some_episodes
from reachcost.fitting.recipe import Recipe
from reachcost.results.stats import clustered_mean

GOALS = 100
MARGIN = 0.1
"""A correlation this much below the best reference is worse, and as much above chance is better than nothing."""
QUICK, PAIRS = Recipe(epochs=3, hidden=128), 30_000
"""The reference head: enough to see whether logged times can be learned."""


def judged_from_logs(name: str, rule: Rule, subject: Subject, unseen: Latents) -> Stage:
    """How the audited cost orders logged states, against the best reference on the same ones.

    It fails if a reference is clearly better, and passes if none clearly is; where the references themselves are no
    better than chance, the best one is the audited cost itself, or intervals hold the margin, logs cannot tell.
    """
    learned, judged = np.arange(len(subject.latents.logs)), np.arange(len(unseen.logs))
    if unseen is subject.latents:  # a reference must not be judged by what it learned from
        learned, judged = learned[::2], judged[1::2]
    pools = logged_pools(unseen, judged, GOALS)
    costs = {"audited": subject.cost, "raw": LatentMSE()}
    with suppress(ReachcostError):  # logs too short for pairs: latent distance remains
        costs["reference"] = HeadCost(
            repair_latents(some_episodes(subject.latents, learned), pairs=PAIRS, recipe=QUICK, seed=subject.seed)
        )
    found = {cost: ranking.spearman for cost, ranking in logged_audit(costs, unseen, pools).items()}
    best = max((cost for cost in found if cost != "audited"), key=lambda cost: found[cost].mean())
    behind = found["audited"] - found[best]
    episodes = unseen.logs.episode_of(pools.goals)
    low, high = clustered_mean(behind, episodes)
    rule = replace(rule, measured=f"logged correlation {found['audited'].mean():.2f}, minus that of {best}")
    stage = compare(name, rule, float(behind.mean()), (low, high), behind, episodes)
    known = clustered_mean(found[best], episodes)[0] > MARGIN and behind.any()
    if not known or low < rule.threshold <= high:
        why = (
            "logged times do not tell costs apart here: log more episodes, or longer ones that come to goals from afar"
        )
        return replace(stage, outcome="unknown", advice=why)
    return stage
