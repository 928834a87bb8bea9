"""Windows of logged frames and action blocks, and errors of a world model on held-out windows.

Shapes: N windows of T frames, A numbers of an action block, D latent size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import WORLD_COLUMN
from reachcost.data.probe import fit_probe, score_probe, score_readings
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.worldmodels.jepa import Parts, predicted_path

CHUNK = 512
VALIDATED = 1000  # maximum number of windows of a validation
FIT_ROWS, TEST_ROWS = 16_000, 4_000
"""Maximum number of rows that the probe of the state is fitted and tested on."""
Read = Callable[[Observations], Tensor]  # function from N observations to encoder inputs [N, ...]
Coordinates = Callable[[np.ndarray], np.ndarray]
"""Function from states [N, ...] to the numbers that a probe should read [N, K]."""


class Windows:
    """All windows of T = `count` frames, one action block apart, within the episodes (first, stop).

    `read` maps observations to encoder inputs, see `Parts.inputs`.

    >>> from reachcost import make_task
    >>> from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
    >>> logs = make_task("tworoom").generate_logs(episodes=20)
    >>> parts = CompactParts(CompactArchitecture())
    >>> windows = Windows(logs, ActionBlocks.of(logs, 5), parts.inputs, count=4, episodes=(0, 20))
    >>> [tuple(part.shape) for part in windows.read(windows.starts[:2])]
    [(8, 64, 64, 3), (2, 3, 10)]
    """

    def __init__(self, logs: Logs, blocks: ActionBlocks, read: Read, count: int, episodes: tuple[int, int]) -> None:
        self.logs, self.blocks, self.count, self.episodes = logs, blocks, count, episodes
        self._read, (first, stop) = read, episodes
        span = (count - 1) * blocks.length + 1
        self.stop_row = logs.rows if stop >= len(logs) else int(logs.offsets[stop])
        starts = logs.window_starts(span)
        self.starts = starts[(starts >= logs.offsets[first]) & (starts < self.stop_row)]
        if not len(self.starts):
            raise ReachcostError(
                f"no episode from {first} to {stop - 1} has the {span} rows of a window of {count} frames "
                f"{blocks.length} steps apart: log longer or more episodes"
            )

    def sample(self, size: int, rng: np.random.Generator, worlds: int = 0) -> tuple[Tensor, Tensor]:
        """`read` random windows: uniform ones, or equally many from each of `worlds` worlds, sorted by world."""
        if not worlds:
            return self.read(self.starts[rng.integers(len(self.starts), size=size)])
        groups = self._worlds
        if len(groups) < worlds:
            raise ReachcostError(
                f"the training logs have {len(groups)} worlds, but worlds is {worlds}: log more worlds, or train with "
                f"--worlds {len(groups)}, or 0 to mix all"
            )
        chosen = rng.choice(len(groups), worlds, replace=False)
        return self.read(np.concatenate([rng.choice(groups[world], size // worlds) for world in chosen]))

    @cached_property
    def _worlds(self) -> list[np.ndarray]:
        """First rows of the windows of each world."""
        if WORLD_COLUMN not in self.logs.columns:
            raise ReachcostError(
                f"the logs have no column `{WORLD_COLUMN}`, so their worlds are unknown: train with --worlds 0"
            )
        world = np.asarray(self.logs.columns[WORLD_COLUMN])[self.starts]
        order = np.argsort(world, kind="stable")
        return np.split(self.starts[order], np.flatnonzero(np.diff(world[order])) + 1)

    def read(self, starts: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs [N * T, ...] and action blocks [N, T - 1, A] of windows that start at rows [N]."""
        return self._inputs(self.rows(starts).reshape(-1)), self.actions(starts)

    def rows(self, starts: np.ndarray) -> np.ndarray:
        """Rows of the frames of each window [N, T]."""
        return starts[:, None] + self.blocks.length * np.arange(self.count)

    def _inputs(self, rows: np.ndarray) -> Tensor:
        return self._read(self.logs.observations(rows))

    @torch.no_grad()
    def encode(self, parts: Parts, rows: np.ndarray, together: int = CHUNK) -> Tensor:
        """Latents [N, D] of log rows, on the CPU."""
        batches = (self._inputs(rows[first : first + together]) for first in range(0, len(rows), together))
        return torch.cat([parts.embed(batch.to(parts.device)).cpu() for batch in batches])

    def actions(self, starts: np.ndarray) -> Tensor:
        """Action blocks between the frames of each window [N, T - 1, A]."""
        length = self.blocks.length
        taken = np.asarray(self.logs.columns["action"])[starts[:, None] + np.arange((self.count - 1) * length)]
        return torch.from_numpy(self.blocks.standardise(taken.reshape(len(starts), self.count - 1, length, -1)))


def prediction_error(parts: Parts, held_out: Windows) -> dict[str, float]:
    """Squared error of predicted latents, relative to their variance, after one action block and after a window."""
    encoded, predicted = _roll_out(parts, held_out, _starts(held_out, VALIDATED))
    variance = encoded.var(0).mean()
    error = (predicted - encoded[:, 1:]).square().mean((0, 2)) / variance
    return {"one_step": error[0].item(), "rollout": error[-1].item()}


def state_error(
    parts: Parts, train: Windows, held_out: Windows, coordinates: Coordinates | None = None
) -> dict[str, float]:
    """Errors of a linear probe of the logged state, fitted on training rows, on held-out rows.

    `probe_*` are errors on encoded frames, `rollout_rmse` on the last prediction of a window, in units of the state.
    """
    states = np.asarray(train.logs.columns["state"])
    states = states if coordinates is None else coordinates(states)
    rows = train.rows(_starts(train, -(-FIT_ROWS // train.count))).reshape(-1)
    starts = _starts(held_out, TEST_ROWS)
    states = states[:, np.ptp(states[starts], axis=0) > 0]  # R² of a constant is not defined
    probe = fit_probe(train.encode(parts, rows), states[rows])
    latents = held_out.encode(parts, starts)
    score = score_probe(probe, latents, states[starts])
    each = [score_readings(probe(latents)[:, [k]].numpy(), states[starts][:, [k]]).r2 for k in range(states.shape[1])]
    ends = held_out.rows(starts[: TEST_ROWS // 2])[:, -1]
    _, predicted = _roll_out(parts, held_out, starts[: TEST_ROWS // 2])
    return {
        "probe_r2": score.r2,
        "probe_r2_least": min(each),
        "probe_rmse": score.rmse,
        "rollout_rmse": score_probe(probe, predicted[:, -1], states[ends]).rmse,
    }


def _starts(windows: Windows, count: int) -> np.ndarray:
    """First rows of a fixed sample of windows."""
    order = generator(0, "quality").permutation(len(windows.starts))
    return windows.starts[order[:count]]


@torch.no_grad()
def _roll_out(parts: Parts, windows: Windows, starts: np.ndarray) -> tuple[Tensor, Tensor]:
    """Encoded latents [N, T, D] of windows, and latents predicted from their first frame [N, T - 1, D]."""
    rows = windows.rows(starts)
    encoded = windows.encode(parts, rows.reshape(-1)).view(*rows.shape, -1)
    start, actions = encoded[:, :1].to(parts.device), windows.actions(starts).to(parts.device)
    return encoded, torch.stack(predicted_path(parts, start, actions)[1:], dim=1).cpu()
