"""Windows of logged frames and the action blocks between them: what a world model is trained on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import WORLD_COLUMN
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations

Read = Callable[[Observations], Tensor]
"""N observations to what an encoder reads of them [N, ...]."""


class Windows:
    """All windows of some frames, one action block apart, within the first or the last episodes of logs.

    Args:
        logs: The logs.
        blocks: Length and statistics of an action block.
        read: Makes what an encoder reads of observations; `Parts.inputs`.
        count: T, frames of a window.
        first: First episode.
        stop: Episode to stop before.

    >>> from reachcost import make_task
    >>> from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
    >>> logs = make_task("tworoom").generate_logs(episodes=20)
    >>> parts = CompactParts(CompactArchitecture())
    >>> windows = Windows(logs, ActionBlocks.of(logs, 5), parts.inputs, count=4, first=0, stop=20)
    >>> [tuple(part.shape) for part in windows.read(windows.starts[:2])]
    [(8, 64, 64, 3), (2, 3, 10)]
    """

    def __init__(self, logs: Logs, blocks: ActionBlocks, read: Read, count: int, first: int, stop: int) -> None:
        self.logs, self.blocks, self.count = logs, blocks, count
        self._read = read
        self._episodes = (first, stop)
        span = (count - 1) * blocks.length + 1
        self.stop_row = logs.rows if stop >= len(logs) else int(logs.offsets[stop])
        starts = logs.window_starts(span)
        self.starts = starts[(starts >= logs.offsets[first]) & (starts < self.stop_row)]
        if not len(self.starts):
            raise ReachcostError(
                f"no episode from {first} to {stop - 1} has the {span} rows of a window of {count} frames "
                f"{blocks.length} steps apart: log longer or more episodes"
            )

    def of_frames(self, count: int) -> Windows:
        """Windows of another number of frames within the same episodes."""
        return Windows(self.logs, self.blocks, self._read, count, *self._episodes)

    def draw(self, size: int, generator: np.random.Generator, worlds: int = 0) -> tuple[Tensor, Tensor]:
        """Read `size` windows drawn uniformly, or as many of each of so many worlds, one world after the other."""
        if not worlds:
            return self.read(self.starts[generator.integers(len(self.starts), size=size)])
        groups = self._worlds
        if len(groups) < worlds:
            raise ReachcostError(
                f"the logs to train on are of {len(groups)} worlds, an update of {worlds}: log more of them, or train "
                f"with fewer (--worlds {len(groups)}, or 0 to mix all)"
            )
        chosen = generator.choice(len(groups), worlds, replace=False)
        return self.read(np.concatenate([generator.choice(groups[world], size // worlds) for world in chosen]))

    @cached_property
    def _worlds(self) -> list[np.ndarray]:
        """First rows of the windows of each world."""
        if WORLD_COLUMN not in self.logs.columns:
            raise ReachcostError(
                f"the logs have no column `{WORLD_COLUMN}`, so their worlds are not known: train with --worlds 0"
            )
        world = np.asarray(self.logs.columns[WORLD_COLUMN])[self.starts]
        order = np.argsort(world, kind="stable")
        return np.split(self.starts[order], np.flatnonzero(np.diff(world[order])) + 1)

    def read(self, starts: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs [N * T, ...] and action blocks [N, T - 1, A] of windows that start at rows [N]."""
        return self.inputs_of(self.rows(starts).reshape(-1)), self.actions(starts)

    def rows(self, starts: np.ndarray) -> np.ndarray:
        """Rows of the frames of each window [N, T]."""
        return starts[:, None] + self.blocks.length * np.arange(self.count)

    def inputs_of(self, rows: slice | np.ndarray) -> Tensor:
        """What the encoder reads of log rows: [N, ...]."""
        return self._read(self.logs.observations(rows))

    def actions(self, starts: np.ndarray) -> Tensor:
        """Action blocks between the frames of each window [N, T - 1, A]."""
        rows = starts[:, None] + np.arange((self.count - 1) * self.blocks.length)
        taken = np.asarray(self.logs.columns["action"])[rows]
        return torch.from_numpy(
            self.blocks.standardise(taken.reshape(len(starts), self.count - 1, self.blocks.length, -1))
        )
