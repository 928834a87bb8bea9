"""An episode with contact, under latent distance and under the hybrid, side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reachcost.results.figures.film import draw_film
from reachcost.studies.closed_loop import outcomes
from reachcost.studies.episode import visited
from reachcost.studies.experiment import Experiment
from reachcost.studies.pusht.settings import MEMBER, READINGS, WHOLE, sets
from reachcost.studies.study import Setting

FRAMES = 6
"""Shown of an episode, first and last state among them."""
GOAL_SHARE = 0.35
"""How much of the goal shines through."""


def draw_contact(experiment: Experiment, path: Path) -> None:
    """Draw the first pair whose block must move, which the hybrid reaches and latent distance does not."""
    settings = [Setting(MEMBER, cost, evaluation=sets(50)[0], **READINGS[WHOLE]) for cost in ("raw", "hybrid")]
    task, goals = experiment.place(settings[0].evaluation)
    raw, hybrid = (outcomes(experiment, setting)["success"] for setting in settings)
    push = task.groups(goals.starts, goals.goals)["block to move"]
    row = int(np.argmax((hybrid > raw) & push))
    goal = task.render(goals.goals[row : row + 1])
    strips, steps = {}, np.array([0])
    for setting in settings:
        states = visited(experiment, setting, int(goals.episodes[row]))
        steps = np.linspace(0, len(states) - 1, FRAMES).astype(int)
        frames = (1 - GOAL_SHARE) * task.render(states[steps]) + GOAL_SHARE * goal
        strips[setting.cost] = np.concatenate([frames, goal]).round().astype(np.uint8)
    captions = [*(f"step {step}" for step in steps), "goal"]
    heading = (
        f"PushT, goal offset 50, pair {goals.episodes[row]}, the first that the hybrid alone reaches of these two: the "
        "goal shines through"
    )
    draw_film(strips, captions, path, heading)
