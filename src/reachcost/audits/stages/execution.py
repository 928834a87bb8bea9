"""Execution: does the planner reach its goals?"""

from __future__ import annotations

from reachcost.audits.closed_loops import audited_runs
from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import Subject, once

NAME = "execution"
RULE = Rule(
    "% success in closed loop",
    80.0,
    True,
    "no stage explains the failures: try more episodes, a better head (more logs, more pairs), a longer budget",
    share=True,
)


@once
def measure(subject: Subject) -> Stage:
    """Success in closed loop."""
    rule = subject.rule(NAME, RULE)
    runs = audited_runs(subject)
    if runs is None:
        return unknown(NAME, rule, "needs a simulator or trials")
    return judge(NAME, rule, 100.0 * runs.success[0], runs.episodes)
