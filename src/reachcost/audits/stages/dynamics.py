"""Dynamics: does the world model predict where actions end?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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
WINDOWS = 500
"""Logged windows that are predicted."""


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
        latents = subject.held_out or subject.latents
        if "action" not in latents.logs.columns:
            return unknown(rule, "needs logs with a column 'action'")
        try:
            moves = logged_moves(subject.model, latents, subject.planner.horizon)
        except TooShort as error:
            return unknown(rule, str(error))
    return apply_rule_to_ratio(rule, *moves.through(partial(read, subject)).skill(), moves.episodes)


class TooShort(ReachcostError):
    """No logged episode is long enough."""


@dataclass(frozen=True)
class Moves:
    """Predicted and true ends of N sequences of actions.

    Attributes:
        episodes: Episode of each sequence [N].
        start: Latents before the actions [N, D].
        predicted: Predicted latents after the actions [N, D].
        true: True latents after the actions [N, D].
    """

    episodes: np.ndarray
    start: Tensor
    predicted: Tensor
    true: Tensor

    def through(self, read: Callable[[Tensor], Tensor]) -> Moves:
        """The same moves of what a probe reads from the latents."""
        return Moves(self.episodes, *map(read, (self.start, self.predicted, self.true)))

    def skill(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared change that each prediction explains, and the squared change, each [N].

        The ratio of their sums is 1 for perfect predictions, and 0 if they are as wrong as predicting no change.
        """
        error, change = ((part - self.true).double().square().sum(1).numpy() for part in (self.predicted, self.start))
        return change - error, change


@torch.no_grad()
def logged_moves(model: WorldModel, latents: Latents, horizon: int = 5, count: int = WINDOWS, seed: int = 0) -> Moves:
    """Predict logged windows of `horizon` action blocks. A model with a history also gets the frames before them."""
    logs, blocks, history = latents.logs, blocks_of(model), history_of(model)
    if "action" not in logs.columns:
        raise ReachcostError("prediction on logs needs logs with a column 'action'")
    length = 1 if blocks is None else blocks.length
    steps = (history - 1 + horizon) * length
    windows = generator(seed, "logged-moves").permutation(logs.window_starts(steps + 1))[:count]
    if not len(windows):
        raise TooShort(f"no logged episode has {steps + 1} rows: give longer episodes or a shorter horizon")
    actions = np.asarray(logs.columns["action"])[windows[:, None] + np.arange(steps)]
    plans = (
        actions if blocks is None else blocks.standardise(actions.reshape(len(windows), -1, length, actions.shape[-1]))
    )
    if plans.shape[-1] != model.action_dim:
        raise ReachcostError(
            f"the world model takes {model.action_dim} numbers a step, not {plans.shape[-1]}: call rc.with_actions"
        )
    frames = latents.values[torch.from_numpy(windows[:, None] + length * np.arange(history))]
    predicted = predict_ends(model, frames, torch.from_numpy(plans)[:, None])[:, 0].cpu()
    true = latents.values[torch.from_numpy(windows + steps)]
    return Moves(logs.episode_of(windows), frames[:, -1], predicted, true)
