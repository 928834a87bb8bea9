"""What was done before from states like the present one: candidates that logs already know."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reachcost.base.parallel import each
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.fitting.pairs import exclude_from, require_latents

TOGETHER = 8192
"""Logged latents that are compared at once."""


class LoggedActions:
    """Logged action sequences, found by the latent that they began from.

    Rows a block apart count: sequences that begin a step later are much the same.

    Args:
        latents: Encoded logs with a column `action`.
        blocks: How actions become blocks.
        exclude: An evaluation set, whose episodes nothing is taken from.

    >>> from reachcost import Logs
    >>> logs = Logs({"action": np.arange(8.0)[:, None]}, np.array([8]))
    >>> blocks = ActionBlocks(mean=(0.0,), std=(1.0,), low=(0.0,), high=(7.0,), length=2)
    >>> known = LoggedActions(Latents(torch.arange(8.0)[:, None], logs), blocks)
    >>> known.near(torch.tensor([[3.9]]), horizon=1, count=2).tolist()
    [[[[4.0, 5.0]], [[2.0, 3.0]]]]
    """

    def __init__(self, latents: Latents, blocks: ActionBlocks, exclude: EvaluationSet | None = None) -> None:
        require_latents(latents)
        logs = latents.logs
        if "action" not in logs.columns or np.shape(logs.columns["action"])[1:] != (len(blocks.mean),):
            raise ReachcostError(
                f"these logs hold no actions of {len(blocks.mean)} numbers, so nothing was done in them that a planner "
                "could do again: give logs with a column 'action' of this world"
            )
        sources = exclude is not None and exclude.source_episodes is not None
        banned = exclude_from(logs, exclude if sources else None).episodes
        episode = logs.episode_of(np.arange(logs.rows))
        step = np.arange(logs.rows) - logs.offsets[episode]
        self._rows = np.flatnonzero((step % blocks.length == 0) & ~np.isin(episode, banned))
        # The action of a last row was never taken, nor one that is not finite.
        self._left = (logs.lengths[episode] - 1 - step)[self._rows] // blocks.length
        self._actions = np.asarray(logs.columns["action"])
        self._wrong = np.flatnonzero(~np.isfinite(self._actions).all(1))
        self._values, self._blocks = latents.values, blocks

    @torch.no_grad()
    def near(self, latents: Tensor, horizon: int, count: int) -> Tensor:
        """The sequences that began nearest to each latent [B, D], nearest first -> [B, up to `count`, horizon, A]."""
        rows = self._rows[self._left >= horizon]
        steps = np.arange(horizon * self._blocks.length)
        until = np.searchsorted(self._wrong, rows + len(steps))
        rows = torch.from_numpy(rows[np.searchsorted(self._wrong, rows) == until])
        if not len(rows):
            raise ReachcostError(
                f"no logged episode goes on for the {horizon} action blocks of a plan: log longer episodes, or plan "
                "with a smaller horizon= or without from_logs"
            )

        def nearest(latent: Tensor) -> Tensor:  # one latent by itself: the same bits in every batch
            known = (self._values[group] for group in rows.split(TOGETHER))
            distance = torch.cat([here.square().sum(1) - 2 * here @ latent for here in known])
            return rows[distance.topk(min(count, len(rows)), largest=False).indices]

        found = torch.stack(each(nearest, latents)).numpy()
        taken = self._actions[found[..., None, None] + steps.reshape(horizon, -1)]
        return torch.from_numpy(self._blocks.standardise(taken))
