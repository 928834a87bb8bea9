"""Logged action sequences from states like the current one, as candidates of planners."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from reachcost.core.arrays import row_reader
from reachcost.core.parallel import parallel_map
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import require_latents
from reachcost.planning.planner import lowest
from reachcost.protocols import TerminalCost

TOGETHER = 8192  # number of logged latents that are compared at once
AMONG = 300  # number of nearest sequences, among which the best are selected by their ends
PLACES = 20_000  # maximum number of sequences for that selection; of more, an evenly spaced subset is used


class LoggedActions:
    """Logged action sequences that begin a block apart, looked up by the latent that they began from.

    Args:
        latents: Encoded logs with a column `action`.
        blocks: The action blocks; or the number of actions, if they are discrete.
        exclude: An evaluation set; its source episodes are not used, nor those of `latents.excluded`.

    >>> from reachcost import Logs
    >>> logs = Logs({"action": np.arange(8.0)[:, None]}, np.array([8]))
    >>> blocks = ActionBlocks(mean=(0.0,), std=(1.0,), low=(0.0,), high=(7.0,), length=2)
    >>> known = LoggedActions(Latents(torch.arange(8.0)[:, None], logs), blocks)
    >>> known.near(torch.tensor([[3.9]]), horizon=1, count=2).tolist()
    [[[[4.0, 5.0]], [[2.0, 3.0]]]]
    >>> near = torch.zeros(1, 1)
    >>> known.best(lambda end, goal: (end - goal).abs()[..., 0], near, near + 6, horizon=1, count=1, among=2).tolist()
    [[[[2.0, 3.0]]]]
    """

    def __init__(self, latents: Latents, blocks: ActionBlocks | int, exclude: EvaluationSet | None = None) -> None:
        require_latents(latents)
        discrete = isinstance(blocks, int)
        logs, self._length = latents.logs, 1 if discrete else blocks.length
        actions = _actions(logs, blocks)
        sets = [*latents.excluded, *([] if exclude is None else [exclude])]
        banned = Exclusion(logs, [one for one in sets if one.source_episodes is not None]).episodes
        episode = logs.episode_of(np.arange(logs.rows))
        step = np.arange(logs.rows) - logs.offsets[episode]
        self._rows = np.flatnonzero((step % self._length == 0) & ~np.isin(episode, banned))
        # Actions of last rows, non-finite ones and unknown discrete ones were never executed.
        self._left = (logs.lengths[episode] - 1 - step)[self._rows] // self._length
        known = (actions >= 0) & (actions < blocks) if discrete else np.isfinite(actions)
        self._wrong = np.flatnonzero(~known.all(1))
        self._read = row_reader(latents.values)
        units = actions if discrete else replace(blocks, length=1).standardise(actions[:, None])
        self._actions = torch.from_numpy(units)
        self._indices: dict[tuple[int, bool, torch.device], _Index] = {}

    @torch.no_grad()
    def near(self, latents: Tensor, horizon: int, count: int) -> Tensor:
        """Return the sequences that began nearest to latents [B, D], nearest first [B, up to `count`, horizon, A]."""
        index = self._index(horizon, latents.device, with_ends=False)
        return self._taken(index.rows[index.nearest(latents, count)], horizon)

    @torch.no_grad()
    def best(self, cost: TerminalCost, latents: Tensor, goal: Tensor, horizon: int, count: int, among: int) -> Tensor:
        """Return those of the `among` nearest sequences whose logged ends cost least, best first.

        From latents [B, D] to goals [B, D] -> [B, up to `count`, horizon, A].
        """
        index = self._index(horizon, latents.device, with_ends=True)
        nearest = index.nearest(latents, among)
        order = lowest(cost(index.ends[nearest], goal), min(count, nearest.shape[1]))
        return self._taken(index.rows[nearest.gather(1, order)], horizon)

    def _taken(self, rows: Tensor, horizon: int) -> Tensor:
        """Actions of `horizon` blocks from rows [B, K] on -> [B, K, horizon, A]."""
        steps = torch.arange(horizon * self._length, device=rows.device)
        self._actions = self._actions.to(rows.device)
        return self._actions[rows[..., None] + steps].unflatten(2, (horizon, -1)).flatten(3)

    def _index(self, horizon: int, device: torch.device, with_ends: bool) -> _Index:
        """The sequences of `horizon` blocks, at most `PLACES` with ends; indexed at the first use."""
        key = (horizon, with_ends, device)
        if key not in self._indices:
            rows = self._of_length(horizon)
            if with_ends:
                rows = rows[:: -(-len(rows) // PLACES)]
            ends = rows + horizon * self._length if with_ends else rows[:0]
            self._indices[key] = _Index(*(part.to(device) for part in (rows, self._read(rows), self._read(ends))))
        return self._indices[key]

    def _of_length(self, horizon: int) -> Tensor:
        """Rows from which `horizon` blocks were executed."""
        rows = self._rows[self._left >= horizon]
        until = np.searchsorted(self._wrong, rows + horizon * self._length)
        rows = rows[np.searchsorted(self._wrong, rows) == until]
        if not len(rows):
            remedy = "log longer episodes, or plan with a smaller horizon= or without from_logs"
            raise ReachcostError(f"no logged episode has the {horizon} action blocks of a plan: {remedy}")
        return torch.from_numpy(rows)


def _actions(logs: Logs, blocks: ActionBlocks | int) -> np.ndarray:
    """Logged actions: numbers [R, a], or indices of discrete actions, int64 [R, 1]."""
    actions = np.asarray(logs.columns.get("action", np.empty((logs.rows, 0))))
    discrete = isinstance(blocks, int)
    if discrete and actions.dtype.kind in "iub" and actions.size == len(actions):
        return actions.reshape(-1, 1).astype(np.int64)
    if discrete or actions.shape[1:] != (len(blocks.mean),):
        kind = "discrete actions, one number each" if discrete else f"actions of {len(blocks.mean)} numbers"
        raise ReachcostError(f"these logs have no {kind}: give logs of this world with a column 'action'")
    return actions


class _Index:
    """N sequences: their first rows [N], the latents there [N, D] and, if they are used, at their ends [N, D]."""

    def __init__(self, rows: Tensor, starts: Tensor, ends: Tensor) -> None:
        self.rows, self._starts, self.ends = rows, starts, ends
        self._squares = torch.cat([part.square().sum(1) for part in starts.split(TOGETHER)])

    def nearest(self, latents: Tensor, count: int) -> Tensor:
        """Indices of the nearest to each latent [B, D], nearest first [B, up to `count`]."""

        def find(latent: Tensor) -> Tensor:  # one latent alone: the same bits in every batch
            products = torch.cat([part @ latent for part in self._starts.split(TOGETHER)])
            distance = self._squares - 2 * products
            return distance.topk(min(count, len(distance)), largest=False).indices

        return torch.stack(parallel_map(find, latents))
