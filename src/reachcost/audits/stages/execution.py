"""Execution: does the planner reach its goals?"""

from __future__ import annotations

from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import PASSES, Subject

NAME = "execution"
RULE = Rule(
    "% success in closed loop",
    PASSES,
    True,
    "no stage explains the failures: try more episodes, a better head (more logs, more pairs), a longer budget",
    share=True,
)


def measure(subject: Subject) -> Stage:
    """Success in closed loop."""
    rule = subject.rule(NAME, RULE)
    if subject.runs is None:
        return unknown(NAME, rule, "needs a simulator or trials")
    return judge(NAME, rule, 100.0 * subject.runs.success[0], subject.runs.episodes)
