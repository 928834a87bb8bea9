"""Ranking: does the terminal cost put good candidates first?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reachcost.audits.logged import TooFewGoals, logged_audit, logged_pools
from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import Subject

NAME = "ranking"
RULE = Rule(
    "% ranked before the best",
    10.0,
    False,
    "the terminal cost buries good candidates: fit a head on the logs (reachcost fit) and audit it with --head",
)
LOGGED = Rule("correlation, logged times", 0.9, True, RULE.advice)
"""The rule without a simulator: rank correlation with the fastest logged way."""
LEARNED = "this head ranks candidates badly: fit it on more logs or pairs, and on true labels"
"""What to do when the cost is a head already."""
GOALS = 100


def measure(subject: Subject) -> Stage:
    """Share of the candidates that the cost ranks before the truly best one: no more than the share of elites."""
    advice = LEARNED if subject.learned else RULE.advice
    if subject.sasc is not None:
        elites = 100 * subject.planner.elites / subject.planner.candidates
        ranks = subject.sasc.rankings["audited"].oracle_best_rank
        return judge(NAME, replace(RULE, threshold=elites, advice=advice), ranks, subject.sasc.episodes)
    rule = replace(LOGGED, advice=advice)
    unseen = subject.held_out if subject.learned else subject.held_out or subject.latents
    if unseen is None:
        return unknown(NAME, rule, "needs --held-out, or a --task with an oracle distance")
    try:
        pools = logged_pools(unseen, np.arange(len(unseen.logs)), GOALS)
    except TooFewGoals as error:
        return unknown(NAME, rule, str(error))
    ranking = logged_audit({"audited": subject.cost}, unseen, pools)["audited"]
    return judge(NAME, rule, ranking.spearman, unseen.logs.episode_of(pools.goals))
