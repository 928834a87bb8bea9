"""Dynamics: do predicted ends come true?"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from reachcost.audits.dynamics import drawn_windows, logged_moves
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
        moved = ends.start.repeat_interleave(samples, 0), ends.predicted.flatten(0, 1), ends.true.flatten(0, 1)
        episodes = ends.episodes.repeat(samples)
    else:
        latents, horizon = subject.held_out or subject.latents, subject.planner.horizon
        if "action" not in latents.logs.columns:
            return unknown(NAME, rule, "needs logs with a column 'action'")
        steps = horizon * (1 if subject.blocks is None else subject.blocks.length)
        if not len(latents.logs.window_starts(steps + 1)):
            return unknown(NAME, rule, f"needs logged episodes of {steps + 1} rows, or a shorter horizon")
        moved = logged_moves(subject.model, latents, horizon)
        episodes = latents.logs.episode_of(drawn_windows(latents, steps))
    start, predicted, true = moved if subject.probe is None else map(subject.probe, moved)
    error, change = (_squares(part, true) for part in (predicted, start))
    return judge_ratio(NAME, rule, change - error, change, episodes)


def _squares(part: Tensor, true: Tensor) -> np.ndarray:
    return (part - true).double().square().sum(1).numpy()
