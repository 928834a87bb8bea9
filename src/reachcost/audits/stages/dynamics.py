"""Dynamics: do predicted ends come true?"""

from __future__ import annotations

import numpy as np

from reachcost.audits.dynamics import drawn_windows, logged_moves, prediction_skill, skill_by_episode
from reachcost.audits.stage import Rule, Stage, compare, unknown
from reachcost.audits.subject import EXECUTED, Subject

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
    if moved is not None:
        episodes = np.repeat(subject.require_place()[1].episodes, EXECUTED)
    else:
        latents, horizon = subject.held_out or subject.latents, subject.planner.horizon
        if subject.blocks is None or "action" not in latents.logs.columns:
            return unknown(NAME, RULE, "needs a model with action blocks and logs with a column 'action'")
        steps = horizon * subject.blocks.length
        if not len(latents.logs.window_starts(steps + 1)):
            return unknown(NAME, RULE, f"needs logged episodes of {steps + 1} rows, or a shorter horizon")
        moved = logged_moves(subject.model, latents, horizon)
        episodes = latents.logs.episode_of(drawn_windows(latents, steps))
    start, predicted, true = moved if subject.probe is None else map(subject.probe, moved)
    found = skill_by_episode(start, predicted, true, episodes)
    skill = prediction_skill(start, predicted, true)
    return compare(NAME, RULE, skill, found.interval, found.rows, found.episodes)
