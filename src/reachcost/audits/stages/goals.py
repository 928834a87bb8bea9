"""Goals: can they be reached at all, in the actions that an episode has?"""

from __future__ import annotations

import numpy as np

from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import Subject
from reachcost.base.seeding import generator
from reachcost.planning.control import budget_of

NAME = "goals"
RULE = Rule(
    "% of goals within reach",
    80.0,
    True,
    "too many goals cannot be reached in the budget, however one acts: give nearer goals or a larger budget",
    share=True,
)
MOVES = 20_000
"""Logged moves that tell how far one can get."""
STEPS = (1, 2, 4)
"""Steps of a move. Single steps alone say too much where distances are counted in whole cells."""
SLACK = 1.1
"""Logs may not hold the very fastest move."""
ADDS_UP = 2.0
"""How much faster several steps may seem than single ones, by an oracle distance that is not exact."""


def measure(subject: Subject) -> Stage:
    """Share of goals whose true distance is no longer than the budget of moves as fast as the fastest one known.

    A goal that the planner reached that knows everything is within reach, whatever its distance.
    """
    rule = subject.rule(NAME, RULE)
    if subject.place is None or not subject.place[0].offers("distance"):
        return unknown(NAME, rule, "needs a simulator with an oracle distance")
    task, evaluation = subject.place
    speeds = {steps: moves / steps for steps in STEPS if len(moves := _moves(subject, steps))}
    if not speeds:
        return unknown(NAME, rule, "needs logs with a column `state`")
    usual = [np.percentile(speed, 99) for speed in speeds.values()]
    if max(usual) > ADDS_UP * usual[0]:
        return unknown(NAME, rule, "the distance grows faster than steps add up: give one that adds up along a way")
    farthest = SLACK * budget_of(task, evaluation) * min(speed.max() for speed in speeds.values())
    far = np.asarray(task.distance(evaluation.starts, evaluation.goals))
    within = (far <= farthest) | task.success(evaluation.starts, evaluation.goals)
    within |= False if subject.oracle_runs is None else subject.oracle_runs.success[0]
    return judge(NAME, rule, 100.0 * within, evaluation.episodes)


def _moves(subject: Subject, steps: int) -> np.ndarray:
    """How far so many steps led, in the logs and by the planner that knows everything [N]."""
    (task, _), logs = subject.require_place(), subject.latents.logs
    ends = []
    if "state" in logs.columns:
        rows = generator(0, "moves").permutation(logs.window_starts(steps + 1))[:MOVES]
        ends += [tuple(np.asarray(logs.columns["state"])[rows + step] for step in (0, steps))]
    if subject.oracle_runs is not None:
        path = subject.oracle_runs.paths[0]
        ends += [tuple(part.reshape(-1, *path.shape[2:]) for part in (path[:, :-steps], path[:, steps:]))]
    found = np.concatenate([np.empty(0), *(np.asarray(task.distance(*pair), float) for pair in ends)])
    return found[np.isfinite(found)]
