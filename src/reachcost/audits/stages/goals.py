"""Goals: can they be reached within the budget of an episode?"""

from __future__ import annotations

import numpy as np

from reachcost.audits.closed_loops import oracle_runs
from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import Subject, once
from reachcost.core.seeding import generator
from reachcost.planning.control import budget_of

NAME = "goals"
RULE = Rule(
    "% of goals within reach",
    80.0,
    True,
    "too many goals cannot be reached within the budget: give nearer goals or a larger budget",
    share=True,
)
MOVES = 20_000
"""Logged moves from which the maximum speed is estimated."""
STEPS = (1, 2, 4)
"""Steps of a move. Single steps overestimate the speed if distances are counted in whole cells."""
SLACK = 1.1
"""Factor on the maximum speed, as logs may not hold the fastest possible move."""
ADDS_UP = 2.0
"""Maximum ratio of the speed over several steps to that of single steps, for an approximate oracle distance."""


@once
def measure(subject: Subject) -> Stage:
    """Share of goals whose true distance is at most the budget times the maximum known speed.

    A goal that the oracle planner reached counts as within reach at any distance.
    """
    rule = subject.rule(NAME, RULE)
    if subject.place is None or not subject.place[0].offers("distance"):
        return unknown(NAME, rule, "needs a simulator with an oracle distance")
    task, evaluation = subject.place
    speeds = {steps: moves / steps for steps in STEPS if len(moves := _moves(subject, steps))}
    if not speeds:
        return unknown(NAME, rule, "needs logs with a column `state`")
    typical = [np.percentile(speed, 99) for speed in speeds.values()]
    if max(typical) > ADDS_UP * typical[0]:
        return unknown(NAME, rule, "the distance grows faster than steps add up: give one that adds up along a path")
    farthest = SLACK * budget_of(task, evaluation) * min(speed.max() for speed in speeds.values())
    far = np.asarray(task.distance(evaluation.starts, evaluation.goals))
    within = (far <= farthest) | task.success(evaluation.starts, evaluation.goals)
    if (oracle := oracle_runs(subject)) is not None:
        within |= oracle.success[0]
    return judge(NAME, rule, 100.0 * within, evaluation.episodes)


def _moves(subject: Subject, steps: int) -> np.ndarray:
    """Distances covered in this number of steps, in the logs and by the oracle planner [N]."""
    (task, _), logs = subject.require_place(), subject.latents.logs
    ends = []
    if "state" in logs.columns:
        rows = generator(0, "moves").permutation(logs.window_starts(steps + 1))[:MOVES]
        ends += [tuple(np.asarray(logs.columns["state"])[rows + step] for step in (0, steps))]
    if (oracle := oracle_runs(subject)) is not None:
        path = oracle.paths[0]
        ends += [tuple(part.reshape(-1, *path.shape[2:]) for part in (path[:, :-steps], path[:, steps:]))]
    found = np.concatenate([np.empty(0), *(np.asarray(task.distance(*pair), float) for pair in ends)])
    return found[np.isfinite(found)]
