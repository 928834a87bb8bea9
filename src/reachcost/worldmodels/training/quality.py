"""How good a world model is, on episodes it was not trained on: prediction, and what a linear probe reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.data.probe import fit_probe, score_probe, score_readings
from reachcost.worldmodels.jepa import Parts, predicted_path
from reachcost.worldmodels.training.windows import Windows

CHUNK = 512
Coordinates = Callable[[np.ndarray], np.ndarray]
"""States [N, ...] to what a probe should read of them [N, K]."""


@torch.no_grad()
def prediction_error(parts: Parts, held_out: Windows, count: int = 1000) -> dict[str, float]:
    """Error of predicted latents relative to their variance, after one action block and after all of a window."""
    encoded, predicted = _roll_out(parts, held_out, _starts(held_out, count))
    variance = encoded.var(0).mean()
    error = (predicted - encoded[:, 1:]).square().mean((0, 2)) / variance
    return {"one_step": error[0].item(), "rollout": error[-1].item()}


@torch.no_grad()
def state_error(
    parts: Parts,
    train: Windows,
    held_out: Windows,
    coordinates: Coordinates | None = None,
    fit_rows: int = 16_000,
    count: int = 4_000,
) -> dict[str, float]:
    """Read the coordinates of the logged state out of latents: a probe fitted on training, scored on held-out rows.

    `probe_*` are errors on encoded frames, `rollout_rmse` on the last prediction of a window; units of the coordinates.
    """
    states = np.asarray(train.logs.columns["state"])
    states = states if coordinates is None else coordinates(states)
    rows = train.rows(_starts(train, -(-fit_rows // train.count))).reshape(-1)
    probe = fit_probe(_encode(parts, train.inputs_of, rows), states[rows])
    starts = _starts(held_out, count)
    latents = _encode(parts, held_out.inputs_of, starts)
    score = score_probe(probe, latents, states[starts])
    each = [score_readings(probe(latents)[:, [k]].numpy(), states[starts][:, [k]]).r2 for k in range(states.shape[1])]
    ends = held_out.rows(starts[: count // 2])[:, -1]
    _, predicted = _roll_out(parts, held_out, starts[: count // 2])
    return {
        "probe_r2": score.r2,
        "probe_r2_least": min(each),
        "probe_rmse": score.rmse,
        "rollout_rmse": score_probe(probe, predicted[:, -1], states[ends]).rmse,
    }


def _starts(windows: Windows, count: int) -> np.ndarray:
    """A fixed sample of windows."""
    order = generator(0, "quality").permutation(len(windows.starts))
    return windows.starts[order[:count]]


def _encode(parts: Parts, read: Callable[[np.ndarray], Tensor], rows: np.ndarray) -> Tensor:
    batches = (read(rows[first : first + CHUNK]).to(parts.device) for first in range(0, len(rows), CHUNK))
    return torch.cat([parts.embed(batch).cpu() for batch in batches])


def _roll_out(parts: Parts, windows: Windows, starts: np.ndarray) -> tuple[Tensor, Tensor]:
    """Encoded latents [N, T, D] of windows, and those predicted from their first frame [N, T - 1, D]."""
    rows = windows.rows(starts)
    encoded = _encode(parts, windows.inputs_of, rows.reshape(-1)).view(*rows.shape, -1)
    start, actions = encoded[:, :1].to(parts.device), windows.actions(starts).to(parts.device)
    return encoded, torch.stack(predicted_path(parts, start, actions)[1:], dim=1).cpu()
