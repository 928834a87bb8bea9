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
"""Logged moves that tell how far one can get in a step."""
SLACK = 1.1
"""Logs may not hold the very fastest move."""


def measure(subject: Subject) -> Stage:
    """Share of goals whose true distance is no longer than the budget of moves as long as the longest one known."""
    moves = _moves(subject)
    if moves is None:
        return unknown(NAME, subject.rule(NAME, RULE), "needs a simulator with an oracle distance")
    if not len(moves):
        return unknown(NAME, subject.rule(NAME, RULE), "needs logs with a column `state`")
    task, evaluation = subject.require_place()
    farthest = SLACK * budget_of(task, evaluation) * moves.max()
    far = np.asarray(task.distance(evaluation.starts, evaluation.goals))
    there = task.success(evaluation.starts, evaluation.goals)
    return judge(NAME, subject.rule(NAME, RULE), 100.0 * ((far <= farthest) | there), evaluation.episodes)


def _moves(subject: Subject) -> np.ndarray | None:
    """How far single moves led, in the logs and by the planner that knows everything [N]."""
    if subject.place is None or not subject.place[0].offers("distance"):
        return None
    task, logs = subject.place[0], subject.latents.logs
    ends = []
    if "state" in logs.columns:
        rows = generator(0, "moves").permutation(logs.window_starts(2))[:MOVES]
        ends += [tuple(np.asarray(logs.columns["state"])[rows + step] for step in (0, 1))]
    if subject.oracle_runs is not None:
        path = subject.oracle_runs.paths[0]
        ends += [tuple(part.reshape(-1, *path.shape[2:]) for part in (path[:, :-1], path[:, 1:]))]
    found = np.concatenate([np.empty(0), *(np.asarray(task.distance(*pair), float) for pair in ends)])
    return found[np.isfinite(found)]
