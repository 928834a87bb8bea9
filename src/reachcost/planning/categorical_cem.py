"""The cross-entropy method for discrete actions, as the paper runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from reachcost.base.seeding import EpisodeStreams
from reachcost.base.types import require_numbers
from reachcost.data.rollouts import ends_of
from reachcost.errors import ReachcostError
from reachcost.planning.budget import require_budget
from reachcost.planning.elites import lowest
from reachcost.protocols import TerminalCost, WorldModel


@dataclass(frozen=True)
class CategoricalCEM:
    """Fit a categorical distribution per horizon position to the elites, five times, then take the best candidate.

    By default as in the paper: one action of a plan is executed, and every plan starts from scratch.
    """

    discrete: ClassVar[bool] = True

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
    """Weight of the same cost after the executed actions alone. Candidates that end in the same place are then told
    apart by what they do first; 0 is the paper's planner."""
    blocks: int = 1
    """Actions of a plan that are executed before the next plan."""
    warm_start: bool = False
    """Begin with the distribution of elites that all do what the last plan of the episode left unexecuted; else with
    the uniform one."""
    keep_elites: int = 0
    """Best candidates of an iteration, some or all of the elites, that take the last places in the next pool, before
    injected ones."""

    def __post_init__(self) -> None:
        require_numbers(self)
        if self.actions < 1:
            raise ReachcostError(f"CategoricalCEM(actions={self.actions}): give as many as the task has")
        require_budget(self, fewest=1)

    @property
    def executed(self) -> int:
        """Actions executed before the next plan."""
        return self.blocks

    def plan(
        self,
        model: WorldModel,
        cost: TerminalCost,
        context: Tensor,
        goal: Tensor,
        streams: EpisodeStreams,
        injected: np.ndarray | None = None,
        start: Tensor | None = None,
    ) -> Tensor:
        """Choose one action sequence per episode.

        Args:
            model: Rolls the candidates out.
            cost: Ranks them.
            context: Latents [B, T, D].
            goal: Goal latents [B, D].
            streams: Random streams of the B episodes.
            injected: Candidates [B, iterations, K, H] that overwrite the last K of the pool in every iteration.
            start: Actions left of the last plan [B, up to H, 1]; the initial distribution leans to them.

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

        places = 0 if injected is None else injected.shape[2]

        def propose(probability: np.ndarray, iteration: int, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            # [B, H, S]: with the candidates innermost each comparison runs over one contiguous row.
            pool = sample(probability, streams.uniform16(self.horizon, self.candidates))
            drawn = self.candidates - places
            pool[:, :, drawn - len(kept) : drawn] = kept.transpose(1, 2, 0)
            if injected is not None:
                pool[:, :, drawn:] = injected[:, iteration].transpose(0, 2, 1)
            candidates = torch.from_numpy(pool).permute(0, 2, 1)[..., None]
            return pool, self.score(model, cost, context, goal, candidates).numpy()

        probability = np.full((len(goal), self.horizon, self.actions), 1 / self.actions, np.float32)
        if start is not None:
            agreed = start.numpy() == np.arange(self.actions)  # [B, blocks, actions]
            probability[:, : agreed.shape[1]] = self._fitted(agreed.astype(np.float32))
        nothing = np.empty((0, len(goal), self.horizon), np.uint8)
        pool, costs = propose(probability, 0, nothing)
        for iteration in range(1, self.iterations):
            elites = pick(pool, lowest(costs, self.elites))
            frequency = np.stack([(elites == action).mean(0, dtype=np.float32) for action in range(self.actions)], -1)
            probability = self.momentum * probability + (1 - self.momentum) * self._fitted(frequency)
            keep = min(self.keep_elites, self.candidates - places)
            kept = pick(pool, lowest(costs, keep)) if keep else nothing
            pool, costs = propose(probability, iteration, kept)
        return torch.from_numpy(pick(pool, costs.argmin(1)[:, None])[0]).long()[..., None]

    def _fitted(self, frequency: np.ndarray) -> np.ndarray:
        """Probabilities of actions that elites chose that often [B, H, actions]."""
        return (1 - self.prior) * frequency + self.prior / self.actions

    def score(self, model: WorldModel, cost: TerminalCost, context: Tensor, goal: Tensor, pool: Tensor) -> Tensor:
        """Cost of each candidate in the pool [B, S, H, 1] -> [B, S]."""
        costs = cost(ends_of(model, context, pool), goal)
        if self.tie_break:
            costs = costs + self.tie_break * cost(ends_of(model, context, pool[:, :, : self.blocks]), goal)
        return costs


def sample(probability: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Inverse-CDF sampling: probability [B, H, A], uniform uint16 draws [B, H, S] -> actions [B, H, S].

    They are uint8, or uint16 where there are more than 256.
    """
    edges = np.minimum(65536 * probability.cumsum(2), 65535).astype(np.uint16)[..., None]
    actions = np.zeros(draws.shape, np.min_scalar_type(edges.shape[2] - 1))
    for edge in range(edges.shape[2] - 1):
        actions += (draws >= edges[:, :, edge]).view(np.uint8)
    return actions


def pick(pool: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Read candidates [B, K] out of the pool [B, H, S] -> [K, B, H]."""
    batch, horizon, samples = pool.shape
    rows = np.arange(batch * horizon).reshape(batch, horizon) * samples
    return pool.ravel().take(rows + indices.T[..., None])
