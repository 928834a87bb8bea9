"""Foresight: would the same search with the same cost succeed if it knew where candidates really end?"""

from __future__ import annotations

from typing import cast

from reachcost.audits.closed_loops import exact_dynamics, run
from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.stages import execution, goals, ranking, sampling
from reachcost.audits.subject import Subject
from reachcost.costs.oracle import EncodedCost

NAME = "foresight"
RULE = Rule(
    "% success, true ends",
    80.0,
    True,
    "the cost fails even if it knows where candidates end: fit a better head (reachcost fit)",
    share=True,
)
EPISODES = 12
"""Episodes that are run again: every candidate of every plan is executed and encoded."""
CLEAR = 0.5
"""A ranking below this share of its threshold is clearly at fault, so that foresight is not measured."""


def measure(subject: Subject) -> Stage:
    """Success of the planner on some episodes with true dynamics and the audited cost."""
    rule = subject.rule(NAME, RULE)
    if not _needed(subject):
        return unknown(NAME, rule, "not needed: other stages decide the verdict")
    exact = exact_dynamics(subject)
    if exact is None:
        return unknown(NAME, rule, "needs a simulator, and states that are vectors")
    _, evaluation = subject.require_place()
    some = evaluation.spread(min(EPISODES, len(evaluation)))
    runs = run(subject, {"audited": EncodedCost(exact, subject.model, subject.cost)}, some, model=exact)
    return judge(NAME, rule, 100.0 * runs.success[0], runs.episodes)


def _needed(subject: Subject) -> bool:
    """Whether episodes fail although goals and search do not, and the ranking is not clearly at fault."""
    if execution.measure(subject).outcome != "fail":
        return False
    if any(stage.measure(subject).outcome == "fail" for stage in (goals, sampling)):
        return False
    order = ranking.measure(subject)
    return order.outcome != "fail" or cast(float, order.value) >= CLEAR * order.threshold
