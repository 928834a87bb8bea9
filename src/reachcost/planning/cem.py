"""The cross-entropy method for continuous actions, as the paper's controller runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from reachcost.base.seeding import EpisodeStreams
from reachcost.errors import ReachcostError
from reachcost.planning.elites import lowest
from reachcost.protocols import TerminalCost, WorldModel


@dataclass(frozen=True)
class CEM:
    """Fit a diagonal Gaussian over action blocks to the elites, ten times, then take its mean.

    Works in the standardised coordinates of the model's action blocks: no smoothing, no floor under the standard
    deviation, no clipping. The environment clips what it is given.
    """

    horizon: int = 5
    """Action blocks per candidate; all of them are executed before the next plan."""
    candidates: int = 300
    """Candidate action sequences per iteration; the first of them is the mean."""
    iterations: int = 10
    """Rounds of sampling and scoring."""
    elites: int = 30
    """Best candidates the Gaussian is fitted to."""
    execute: Literal["mean", "best"] = "mean"
    """What is executed: the mean of the last elites, which was never scored, or the best candidate of the last pool.
    The latter is safer where the cost can be trusted."""

    def __post_init__(self) -> None:
        if min(self.horizon, self.iterations) < 1 or not 2 <= self.elites <= self.candidates:
            raise ReachcostError(f"{self}: make every count positive, and 2 <= elites <= candidates")
        if self.execute not in ("mean", "best"):
            raise ReachcostError(f"{self}: execute the mean or the best")

    @property
    def executed(self) -> int:
        """Action blocks executed before the next plan."""
        return self.horizon

    def plan(
        self,
        model: WorldModel,
        cost: TerminalCost,
        context: Tensor,
        goal: Tensor,
        streams: EpisodeStreams,
        injected: np.ndarray | None = None,
    ) -> Tensor:
        """Choose one action sequence per episode.

        Args:
            model: Rolls the candidates out.
            cost: Ranks them.
            context: Latents [B, T, D].
            goal: Goal latents [B, D].
            streams: Random streams of the B episodes.
            injected: Not part of this protocol.

        Returns:
            The mean of the last elites, or the best of the last candidates [B, H, A].
        """
        if injected is not None:
            raise ReachcostError("CEM takes no injected candidates: plan without a proposal, or with CategoricalCEM")
        mean = torch.zeros(len(goal), self.horizon, model.action_dim)
        std, rows = torch.ones_like(mean), torch.arange(len(goal))
        pool = costs = mean
        for _ in range(self.iterations):
            noise = torch.from_numpy(streams.normal(self.candidates, *mean.shape[1:]))
            pool = torch.addcmul(mean[:, None], std[:, None], noise)
            pool[:, 0] = mean
            costs = cost(model.rollout(context, pool), goal)
            best = torch.from_numpy(lowest(costs.numpy(), self.elites))
            elites = pool[rows[:, None], best]
            mean, std = elites.mean(1), elites.std(1)
        return mean if self.execute == "mean" else pool[rows, costs.argmin(1)]
