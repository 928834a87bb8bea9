"""Sampling: would the search reach the goals with true dynamics and true distance?"""

from __future__ import annotations

from reachcost.audits.closed_loops import oracle_runs
from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import Subject, once

NAME = "sampling"
RULE = Rule(
    "% success, oracle planner",
    80.0,
    True,
    "this planner misses its goals even with true dynamics and distance: use more candidates, iterations or horizon, "
    "or nearer goals",
    share=True,
)


@once
def measure(subject: Subject) -> Stage:
    """Success of the same search with true dynamics and true distance."""
    rule = subject.rule(NAME, RULE)
    runs = oracle_runs(subject)
    if runs is None:
        return unknown(NAME, rule, "needs a simulator with an oracle distance, and states that are vectors")
    return judge(NAME, rule, 100.0 * runs.success[0], runs.episodes)
