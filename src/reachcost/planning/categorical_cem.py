"""The cross-entropy method for discrete actions, as the paper runs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.base.seeding import EpisodeStreams
from reachcost.errors import ReachcostError
from reachcost.planning.elites import lowest
from reachcost.protocols import TerminalCost, WorldModel


@dataclass(frozen=True)
class CategoricalCEM:
    """Fit a categorical distribution per horizon position to the elites, five times, then take the best candidate."""

    actions: int = 5
    """Number of discrete actions."""
    horizon: int = 12
    """Actions per candidate."""
    candidates: int = 256
    """Candidate action sequences per iteration."""
    iterations: int = 5
    """Rounds of sampling and scoring."""
    elites: int = 32
    """Best candidates the distribution is fitted to."""
    prior: float = 0.2
    """Share of the uniform distribution in the fitted one."""
    momentum: float = 0.2
    """Share of the previous distribution in the next one."""
    tie_break: float = 0.0
    """Weight of the same cost after the first action alone, the only one that is executed. Candidates that end in the
    same place are then told apart by what they do first; 0 is the paper's planner."""

    def __post_init__(self) -> None:
        if min(self.actions, self.horizon, self.iterations, self.elites) < 1 or self.elites > self.candidates:
            raise ReachcostError(f"{self}: make every count positive, and elites no more than candidates")

    @property
    def executed(self) -> int:
        """Actions executed before the next plan."""
        return 1

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
            injected: Candidates [B, iterations, K, H] that overwrite the last K of the pool in every iteration.

        Returns:
            The best candidate of the last pool [B, H, 1]; among equal costs, the one of lowest index.
        """
        if model.action_dim != 1:
            raise ReachcostError(
                f"CategoricalCEM plans one discrete action at a time, but the model takes blocks of {model.action_dim} "
                "numbers: use a model with action_dim 1"
            )
        if injected is not None and injected.shape != (len(goal), self.iterations, injected.shape[2], self.horizon):
            raise ReachcostError(
                f"the injected candidates have shape {injected.shape} but this planner takes [{len(goal)}, "
                f"{self.iterations}, K, {self.horizon}]: give the proposal the planner's iterations and horizon"
            )

        def propose(probability: np.ndarray, iteration: int) -> tuple[np.ndarray, np.ndarray]:
            # [B, H, S]: with the candidates innermost each comparison runs over one contiguous row.
            pool = sample(probability, streams.uniform16(self.horizon, self.candidates))
            if injected is not None:
                pool[:, :, -injected.shape[2] :] = injected[:, iteration].transpose(0, 2, 1)
            candidates = torch.from_numpy(pool).permute(0, 2, 1)[..., None]
            return pool, self.score(model, cost, context, goal, candidates).numpy()

        probability = np.full((len(goal), self.horizon, self.actions), 1 / self.actions, np.float32)
        pool, costs = propose(probability, 0)
        for iteration in range(1, self.iterations):
            elites = pick(pool, lowest(costs, self.elites))
            frequency = np.stack([(elites == action).mean(0, dtype=np.float32) for action in range(self.actions)], -1)
            fitted = (1 - self.prior) * frequency + self.prior / self.actions
            probability = self.momentum * probability + (1 - self.momentum) * fitted
            pool, costs = propose(probability, iteration)
        return torch.from_numpy(pick(pool, costs.argmin(1)[:, None])[0]).long()[..., None]

    def score(self, model: WorldModel, cost: TerminalCost, context: Tensor, goal: Tensor, pool: Tensor) -> Tensor:
        """Cost of each candidate in the pool [B, S, H, 1] -> [B, S]."""
        costs = cost(model.rollout(context, pool), goal)
        if self.tie_break:
            costs = costs + self.tie_break * cost(model.rollout(context, pool[:, :, :1]), goal)
        return costs


def sample(probability: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Inverse-CDF sampling: probability [B, H, A], uniform uint16 draws [B, H, S] -> actions uint8 [B, H, S]."""
    edges = np.minimum(65536 * probability.cumsum(2), 65535).astype(np.uint16)[..., None]
    actions = np.zeros(draws.shape, np.uint8)
    for edge in range(edges.shape[2] - 1):
        actions += (draws >= edges[:, :, edge]).view(np.uint8)
    return actions


def pick(pool: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Read candidates [B, K] out of the pool [B, H, S] -> [K, B, H]."""
    batch, horizon, samples = pool.shape
    rows = np.arange(batch * horizon).reshape(batch, horizon) * samples
    return pool.ravel().take(rows + indices.T[..., None])
