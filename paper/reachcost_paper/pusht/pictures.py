"""An episode with contact, under latent distance and under the hybrid, side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.runs import outcomes
from reachcost.experiments.study import Setting
from reachcost_paper.episode import EpisodeRun, visited
from reachcost_paper.figures.film import draw_film
from reachcost_paper.pusht.settings import MEMBER, READINGS, WHOLE, sets

FRAMES = 6
"""Shown of an episode, first and last state among them."""
GOAL_SHARE = 0.35
"""How much of the goal shines through."""


SETTINGS = [Setting(MEMBER, cost, evaluation=sets(50)[0], **READINGS[WHOLE]) for cost in ("raw", "hybrid")]


def contact_cells(experiment: Experiment) -> list[Cell]:
    """The first pair whose block must move, which the hybrid reaches and latent distance does not."""
    episode = int(experiment.evaluation(SETTINGS[0].evaluation).episodes[_contact_row(experiment)])
    return experiment.cells(EpisodeRun(setting, episode) for setting in SETTINGS)


def _contact_row(experiment: Experiment) -> int:
    task, goals = experiment.place(SETTINGS[0].evaluation)
    raw, hybrid = (outcomes(experiment, setting)["success"] for setting in SETTINGS)
    push = task.groups(goals.starts, goals.goals)["block to move"]
    return int(np.argmax((hybrid > raw) & push))


def draw_contact(experiment: Experiment, path: Path) -> None:
    """Draw that pair under both costs."""
    (task, goals), row = experiment.place(SETTINGS[0].evaluation), _contact_row(experiment)
    goal = task.render(goals.goals[row : row + 1])
    strips, steps = {}, np.array([0])
    for setting in SETTINGS:
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
