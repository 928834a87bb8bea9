"""Dynamics: does the world model predict where actions end?"""

from __future__ import annotations

from functools import partial

from reachcost.audits.candidates import executed
from reachcost.audits.coordinates import read
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
    """Skill of predicting executed candidates, or logged actions without a simulator.

    If there is a probe, the skill is that of the probed state: most latent dimensions do not encode the state. A model
    with a history is measured on logged windows, which provide that history.
    """
    rule = subject.rule(NAME, RULE)
    ends = executed(subject) if history_of(subject.model) == 1 else None
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
    return judge_ratio(NAME, rule, *moves.through(partial(read, subject)).skill(), moves.episodes)
