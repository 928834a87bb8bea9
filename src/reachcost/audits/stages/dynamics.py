"""Dynamics: do predicted ends come true?"""

from __future__ import annotations

from reachcost.audits.dynamics import Moves, TooShort, logged_moves
from reachcost.audits.stage import Rule, Stage, judge_ratio, unknown
from reachcost.audits.subject import Subject

NAME = "dynamics"
RULE = Rule(
    "skill of predicting states",
    0.5,
    True,
    "predicted ends are wrong: train the predictor on such actions, or clamp them to the logged range",
)


def measure(subject: Subject) -> Stage:
    """Skill on executed candidates, or on logged actions where nothing can be executed.

    Latents count most what matters least, so the skill is that of the probed state where there is a probe.
    """
    rule, ends = subject.rule(NAME, RULE), subject.executed
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
    return judge_ratio(NAME, rule, *moves.through(subject.probe).skill(), moves.episodes)
