"""Whether a world model knows where actions lead: its prediction against what came, and against no change at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.base.seeding import generator
from reachcost.data.actions import blocks_of
from reachcost.data.fingerprint import name_of
from reachcost.data.latents import Latents
from reachcost.data.rollouts import ends_of, history_of
from reachcost.errors import ReachcostError
from reachcost.protocols import WorldModel

WINDOWS = 500
"""Logged windows that are predicted."""


class TooShort(ReachcostError):
    """No logged episode is long enough."""


@dataclass(frozen=True)
class Moves:
    """Where N sequences of actions lead.

    Attributes:
        episodes: Of which episode each is [N].
        start: Latents before the actions [N, D].
        predicted: Latents that are predicted after them [N, D].
        true: Latents after them [N, D].
    """

    episodes: np.ndarray
    start: Tensor
    predicted: Tensor
    true: Tensor

    def through(self, read: Callable[[Tensor], Tensor]) -> Moves:
        """The same moves of what is read out of the latents."""
        return Moves(self.episodes, *map(read, (self.start, self.predicted, self.true)))

    def skill(self) -> tuple[np.ndarray, np.ndarray]:
        """How much of the squared change each prediction foresees, and the change, each [N].

        The ratio of their sums is 1 for perfect predictions, 0 for those as wrong as no change at all.

        >>> start, true = torch.zeros(4, 2), torch.ones(4, 2)
        >>> foreseen, change = Moves(np.arange(4), start, 0.5 * true, true).skill()
        >>> float(foreseen.sum() / change.sum())
        0.75
        """
        error, change = ((part - self.true).double().square().sum(1).numpy() for part in (self.predicted, self.start))
        return change - error, change


@torch.no_grad()
def logged_moves(model: WorldModel, latents: Latents, horizon: int = 5, count: int = WINDOWS, seed: int = 0) -> Moves:
    """Predict windows of `horizon` action blocks in the logs, which needs no simulator.

    A model with a history is told the frames and blocks before.

    >>> from reachcost import encode_logs, load_world_model, make_task
    >>> model = load_world_model("lewm-tworoom-3072")
    >>> moves = logged_moves(model, encode_logs(model, make_task("tworoom").generate_logs(10)), count=50)
    >>> bool((moves.predicted - moves.true).norm() < 0.5 * (moves.start - moves.true).norm())
    True
    """
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
            f"the world model {name_of(model)} takes {model.action_dim} numbers a step, and logged actions have "
            f"{plans.shape[-1]}: add model = rc.with_actions(model, logs, length=...), the steps of a block"
        )
    frames = latents.values[torch.from_numpy(windows[:, None] + length * np.arange(history))]
    predicted = ends_of(model, frames, torch.from_numpy(plans)[:, None])[:, 0].cpu()
    true = latents.values[torch.from_numpy(windows + steps)]
    return Moves(logs.episode_of(windows), frames[:, -1], predicted, true)
