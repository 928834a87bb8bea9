"""Whether a world model knows where actions lead: its prediction against what came, and against no change at all."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reachcost.base.seeding import generator
from reachcost.data.actions import blocks_of
from reachcost.data.latents import Latents, require_finite
from reachcost.errors import ReachcostError
from reachcost.protocols import WorldModel

WINDOWS = 500
"""Logged windows that are predicted."""


def prediction_skill(start: Tensor, predicted: Tensor, true: Tensor) -> float:
    """1 for perfect predictions, 0 for those as wrong as no change at all: latents or probed states [N, D] each.

    >>> start, true = torch.zeros(4, 2), torch.ones(4, 2)
    >>> prediction_skill(start, true, true), prediction_skill(start, start, true)
    (1.0, 0.0)
    """
    return 1 - ((predicted - true).square().sum() / (start - true).square().sum()).item()


def drawn_windows(latents: Latents, steps: int, count: int = WINDOWS, seed: int = 0) -> np.ndarray:
    """First rows of random windows of `steps` actions in the logs [N]."""
    return generator(seed, "logged-moves").permutation(latents.logs.window_starts(steps + 1))[:count]


@torch.no_grad()
def logged_moves(
    model: WorldModel, latents: Latents, horizon: int = 5, count: int = WINDOWS, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Start, predicted and true latents [N, D] of windows of `horizon` action blocks in the logs: needs no simulator.

    >>> from reachcost import encode_logs, load_world_model, make_task
    >>> model = load_world_model("lewm-tworoom-3072")
    >>> latents = encode_logs(model, make_task("tworoom").generate_logs(10))
    >>> prediction_skill(*logged_moves(model, latents, count=50)) > 0.5
    True
    """
    if "action" not in latents.logs.columns:
        raise ReachcostError("prediction on logs needs logs with a column 'action'")
    blocks = blocks_of(model)
    steps = horizon * (1 if blocks is None else blocks.length)
    starts = drawn_windows(latents, steps, count, seed)
    if not len(starts):
        raise ReachcostError(f"no logged episode has {steps + 1} rows: give longer episodes or a shorter horizon")
    actions = np.asarray(latents.logs.columns["action"])[starts[:, None] + np.arange(steps)]
    plans = actions if blocks is None else blocks.standardise(actions.reshape(len(starts), horizon, blocks.length, -1))
    start, true = (latents.values[torch.from_numpy(rows)] for rows in (starts, starts + steps))
    predicted = model.rollout(start[:, None], torch.from_numpy(plans)[:, None])[:, 0]
    require_finite(predicted, f"what is predicted {horizon} action blocks after log row", starts)
    return start, predicted, true
