"""Ranking: does the terminal cost rank good candidates first if their true ends are known?"""

from __future__ import annotations

from dataclasses import replace

import torch

from reachcost.audits.candidates import executed
from reachcost.audits.gain import ranking_gain
from reachcost.audits.references import MARGIN, judged_from_logs
from reachcost.audits.stage import Rule, Stage, judge_ratio, unknown
from reachcost.audits.subject import Subject, once
from reachcost.costs.checks import score
from reachcost.fitting.logged import TooFewGoals

NAME = "ranking"
RULE = Rule(
    "share of the possible gain",
    0.6,
    True,
    "the terminal cost buries good candidates: fit a head on the logs (reachcost fit) and audit it with --head",
)
LOGS_RULE = replace(RULE, measured="correlation, logged times", threshold=-MARGIN)
"""Rule without an oracle distance."""
FROM_LOGS = "ranking-logs"
"""Name of its threshold."""
LEARNED = (
    "this head ranks candidates badly: let the logs choose its labels (reachcost fit) or, on logged times, its recipe "
    "(--recipe auto), log more, or longer episodes"
)
"""Advice if the cost is a head already."""


@once
def measure(subject: Subject) -> Stage:
    """How much nearer to the goal the cost's elites end than the pool: 0 is chance, 1 is the order by true distance.

    The cost scores true ends, so the dynamics have no effect. Without an oracle distance it ranks logged states.
    """
    advice = LEARNED if subject.learned else RULE.advice
    ends = executed(subject)
    if ends is None or ends.distance is None:
        return _from_logs(subject, replace(subject.rule(FROM_LOGS, LOGS_RULE), advice=advice))
    with torch.no_grad():
        scores = score("audited", subject.cost, ends.true, ends.goal, ends.episodes).cpu().numpy()
    elites = max(1, round(scores.shape[1] * subject.planner.elites / subject.planner.candidates))
    rule = replace(subject.rule(NAME, RULE), advice=advice)
    return judge_ratio(NAME, rule, *ranking_gain(scores, ends.distance, elites), ends.episodes)


def _from_logs(subject: Subject, rule: Rule) -> Stage:
    """Rank correlation with the fastest logged path, compared with references on the same states."""
    unseen = subject.held_out if subject.learned else subject.held_out or subject.latents
    if unseen is None:
        return unknown(NAME, rule, "needs --held-out, or a --task with an oracle distance")
    try:
        return judged_from_logs(NAME, rule, subject, unseen)
    except TooFewGoals as error:
        return unknown(NAME, rule, str(error))
