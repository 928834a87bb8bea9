"""Sampling: would the search find the way if it knew everything?"""

from __future__ import annotations

from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import Subject

NAME = "sampling"
RULE = Rule(
    "% success, oracle planner",
    80.0,
    True,
    "this planner misses its goals even if it knows everything: more candidates, iterations or horizon, or goals that "
    "can be reached",
    share=True,
)


def measure(subject: Subject) -> Stage:
    """Success of the same search with true dynamics and true distance."""
    rule = subject.rule(NAME, RULE)
    if subject.oracle_runs is None:
        return unknown(NAME, rule, "needs a simulator with an oracle distance, and states that are vectors")
    return judge(NAME, rule, 100.0 * subject.oracle_runs.success[0], subject.oracle_runs.episodes)
