"""Dynamics: does the world model predict where actions end?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.measurements import executed
from reachcost.audits.stage import Rule, Stage, apply_rule_to_ratio, unknown
from reachcost.audits.stages.representation import read
from reachcost.audits.subject import Subject
from reachcost.core.seeding import generator
from reachcost.data.actions import blocks_of
from reachcost.data.latents import Latents
from reachcost.data.models import history_of, predict_ends
from reachcost.errors import ReachcostError
from reachcost.protocols import WorldModel

RULE = Rule(
    "dynamics",
    "skill of predicting states",
    0.5,
    True,
    "predicted ends are wrong: train the predictor on such actions, or clamp them to the logged range",
)
WINDOWS = 500  # logged windows that are predicted


class CannotPredict(ReachcostError):
    """The logs have no actions, or no episode is long enough."""


class Moves(NamedTuple):
    """Predicted and true ends of N sequences of actions."""

    episodes: np.ndarray  # episode of each sequence [N]
    start: Tensor  # latents before the actions [N, D]
    predicted: Tensor  # predicted latents after the actions [N, D]
    true: Tensor  # true latents after the actions [N, D]


def measure(subject: Subject) -> Stage:
    """Skill of predicting what a probe reads after executed candidates or, without a simulator, after logged actions.

    A model with a history is measured on logged windows, which provide that history.
    """
    rule = subject.rule(RULE)
    ends = executed(subject) if history_of(subject.model) == 1 else None
    if ends is not None:
        samples = ends.true.shape[1]
        parts = ends.start.repeat_interleave(samples, 0), ends.predicted.flatten(0, 1), ends.true.flatten(0, 1)
        moves = Moves(ends.episodes.repeat(samples), *parts)
    else:
        try:
            moves = logged_moves(subject.model, subject.held_out or subject.latents, subject.planner.horizon)
        except CannotPredict as error:
            return unknown(rule, str(error))
    explained, change = skill(*(read(subject, part) for part in moves[1:]))
    return apply_rule_to_ratio(rule, explained, change, moves.episodes)


def skill(start: Tensor, predicted: Tensor, true: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Squared change [N] that each prediction explains, and the squared change [N]; all inputs are [N, D].

    The ratio of their sums is 1 for perfect predictions, and 0 if they are as wrong as predicting no change.
    """
    error, change = ((part - true).double().square().sum(1).numpy() for part in (predicted, start))
    return change - error, change


@torch.no_grad()
def logged_moves(model: WorldModel, latents: Latents, horizon: int = 5) -> Moves:
    """Predict logged windows of `horizon` action blocks. A model with a history also gets the frames before them."""
    logs, blocks, history = latents.logs, blocks_of(model), history_of(model)
    if "action" not in logs.columns:
        raise CannotPredict("prediction on logs needs logs with a column 'action': log the actions")
    length = 1 if blocks is None else blocks.length
    steps = (history - 1 + horizon) * length
    windows = generator(0, "logged-moves").permutation(logs.window_starts(steps + 1))[:WINDOWS]
    if not len(windows):
        raise CannotPredict(f"no logged episode has {steps + 1} rows: give longer episodes or a shorter horizon")
    plans = np.asarray(logs.columns["action"])[windows[:, None] + np.arange(steps)]
    if blocks is not None:
        plans = blocks.standardise(plans.reshape(len(windows), -1, length, plans.shape[-1]))
    if plans.shape[-1] != model.action_dim:
        wrong = f"the world model takes {model.action_dim} numbers a step, not {plans.shape[-1]}"
        raise ReachcostError(f"{wrong}: call rc.with_actions")
    frames = latents.values[torch.from_numpy(windows[:, None] + length * np.arange(history))]
    predicted = predict_ends(model, frames, torch.from_numpy(plans)[:, None])[:, 0].cpu()
    true = latents.values[torch.from_numpy(windows + steps)]
    return Moves(logs.episode_of(windows), frames[:, -1], predicted, true)
