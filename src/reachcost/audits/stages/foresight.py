"""Foresight: would the same search with the same cost succeed if it knew where candidates really end?"""

from __future__ import annotations

from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import PASSES, Subject
from reachcost.costs.encoded import EncodedCost
from reachcost.planning.control import control
from reachcost.tasks.exact import ExactDynamics

NAME = "foresight"
RULE = Rule(
    "% success, true ends",
    PASSES,
    True,
    "the cost fails even if it is told where candidates end: fit a better head (reachcost fit)",
    share=True,
)
EPISODES = 12
"""Episodes that are run again: every candidate of every plan is executed and encoded."""


def needless(subject: Subject) -> Stage:
    """The stage where the others tell enough."""
    return unknown(NAME, subject.rule(NAME, RULE), "not asked: other stages tell enough")


def measure(subject: Subject) -> Stage:
    """Success of the planner on some episodes with true dynamics and the audited cost."""
    rule = subject.rule(NAME, RULE)
    if subject.place is None or subject.place[1].starts.ndim != 2:
        return unknown(NAME, rule, "needs a simulator, and states that are vectors")
    task, evaluation = subject.place
    some = evaluation.spread(min(EPISODES, len(evaluation)))
    exact = ExactDynamics(task, subject.blocks, evaluation.starts)
    told = {"audited": EncodedCost(exact, subject.model, subject.cost)}
    options = {"seed": subject.seed, "proposal": subject.proposal, "progress": subject.progress}
    runs = control(task, exact, told, some, subject.planner, **options)
    return judge(NAME, rule, 100.0 * runs.success[0], runs.episodes)
