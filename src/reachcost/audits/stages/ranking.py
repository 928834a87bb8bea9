"""Ranking: does the terminal cost put good candidates first, when it is told where they really end?"""

from __future__ import annotations

from dataclasses import replace

import torch

from reachcost.audits.gain import ranking_gain
from reachcost.audits.references import MARGIN, judged_from_logs
from reachcost.audits.stage import Rule, Stage, judge_ratio, unknown
from reachcost.audits.subject import Subject
from reachcost.costs.checks import score
from reachcost.fitting.logged import TooFewGoals

NAME = "ranking"
RULE = Rule(
    "share of the possible gain",
    0.6,
    True,
    "the terminal cost buries good candidates: fit a head on the logs (reachcost fit) and audit it with --head",
)
LEARNED = (
    "this head ranks candidates badly: let the logs choose its labels (reachcost fit) or, on logged times, its recipe "
    "(--recipe auto), log more, or longer episodes"
)
"""What to do when the cost is a head already."""


def measure(subject: Subject) -> Stage:
    """How much nearer to the goal the cost's elites end than the pool does: 0 as by chance, 1 as by the true distance.

    True ends are scored, so that dynamics have no part in it. Without a simulator the order of logged states tells.
    """
    rule = subject.rule(NAME, RULE)
    rule = replace(rule, advice=LEARNED) if subject.learned else rule
    ends = subject.executed
    if ends is None or ends.distance is None:
        return _from_logs(subject, rule)
    with torch.no_grad():
        scores = score("audited", subject.cost, ends.true, ends.goal, ends.episodes).cpu().numpy()
    elites = max(1, round(scores.shape[1] * subject.planner.elites / subject.planner.candidates))
    return judge_ratio(NAME, rule, *ranking_gain(scores, ends.distance, elites), ends.episodes)


def _from_logs(subject: Subject, rule: Rule) -> Stage:
    """Rank correlation with the fastest logged way, beside those of references on the same states."""
    rule = subject.rule("ranking-logs", replace(rule, measured="correlation, logged times", threshold=-MARGIN))
    unseen = subject.held_out if subject.learned else subject.held_out or subject.latents
    if unseen is None:
        return unknown(NAME, rule, "needs --held-out, or a --task with an oracle distance")
    try:
        return judged_from_logs(NAME, rule, subject, unseen)
    except TooFewGoals as error:
        return unknown(NAME, rule, str(error))
