"""Dynamics: do predicted ends come true?"""

from __future__ import annotations

from reachcost.audits.dynamics import logged_moves, prediction_skill
from reachcost.audits.stage import Rule, Stage, judge, unknown
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
    moved = subject.executed
    if moved is None:
        latents = subject.held_out or subject.latents
        if subject.blocks is None or "action" not in latents.logs.columns:
            return unknown(NAME, RULE, "needs a model with action blocks and logs with a column 'action'")
        steps = subject.planner.horizon * subject.blocks.length
        if not len(latents.logs.window_starts(steps + 1)):
            return unknown(NAME, RULE, f"needs logged episodes of {steps + 1} rows, or a shorter horizon")
        moved = logged_moves(subject.model, latents, subject.planner.horizon)
    return judge(NAME, RULE, prediction_skill(*(subject.probe(part) for part in moved) if subject.probe else moved))
