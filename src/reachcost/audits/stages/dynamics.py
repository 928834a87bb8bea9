"""Dynamics: do predicted ends come true?"""

from __future__ import annotations

from reachcost.audits.dynamics import Moves, TooShort, logged_moves
from reachcost.audits.stage import Rule, Stage, judge_ratio, unknown
from reachcost.audits.subject import Subject
from reachcost.data.rollouts import history_of

NAME = "dynamics"
RULE = Rule(
    "skill of predicting states",
    0.5,
    True,
    "predicted ends are wrong: train the predictor on such actions, or clamp them to the logged range",
)


def measure(subject: Subject) -> Stage:
    """Skill on executed candidates, or on logged actions where nothing can be executed.

    Latents count most what matters least, so the skill is that of the probed state where there is a probe. A model with
    a history is told it in logged windows only, so those are its measure.
    """
    rule = subject.rule(NAME, RULE)
    ends = subject.executed if history_of(subject.model) == 1 else None
    if ends is not None:
        samples = ends.true.shape[1]
        parts = ends.start.repeat_interleave(samples, 0), ends.predicted.flatten(0, 1), ends.true.flatten(0, 1)
        moves = Moves(ends.episodes.repeat(samples), *parts)
    else:
        latents = subject.held_out or subject.latents
        if "action" not in latents.logs.columns:
            return unknown(NAME, rule, "needs logs with a column 'action'")
        try:
            moves = logged_moves(subject.model, latents, subject.planner.horizon)
        except TooShort as error:
            return unknown(NAME, rule, str(error))
    return judge_ratio(NAME, rule, *moves.through(subject.read).skill(), moves.episodes)
