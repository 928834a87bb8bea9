"""The cross-entropy method for discrete actions, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import defer_device_checks
from reachcost.errors import ReachcostError, require_numbers
from reachcost.planning.logged_actions import AMONG
from reachcost.planning.planner import PlanContext, Round, SamplingPlanner, lowest


@dataclass(frozen=True)
class CategoricalCEM(SamplingPlanner):
    """Fits a categorical distribution per position to the elites of each round, then takes the best candidate.

    The defaults are the paper's.
    """

    discrete = True

    actions: int = 5  # pyright: ignore[reportIncompatibleVariableOverride] (planners are frozen)
    horizon: int = 12  # actions per candidate
    candidates: int = 256  # candidates per round
    iterations: int = 5  # number of rounds of sampling and scoring
    elites: int = 32  # number of best candidates that the distribution is fitted to
    prior: float = 0.2  # share of the uniform distribution in the fitted one
    momentum: float = 0.2  # share of the previous distribution in the next one
    tie_break: float = 0.0  # weight of the cost after the executed actions, for candidates that end in the same state
    blocks: int | None = 1  # actions of a plan that are executed before the next plan; None executes all
    warm_start: bool = False  # begin as if all elites equalled the unexecuted rest of the last plan
    from_logs: bool = False  # fill up to half of the first pool with logged sequences from similar latents; needs logs
    logged_among: int = AMONG  # number of nearest logged sequences, of which those with the best logged ends are taken
    keep_elites: int = 0  # number of elites that take the last places in the next pool, before injected candidates

    def __post_init__(self) -> None:
        require_numbers(self)
        if self.actions < 1:
            raise ReachcostError(f"CategoricalCEM(actions={self.actions}): give the number of actions of the task")
        self._require_counts(fewest=1)

    @classmethod
    def experienced(cls, actions: int = 5, **changes: Any) -> CategoricalCEM:
        """Begin with logged action sequences and search around them, with a sixteenth of the paper's rollouts.

        It also starts from the rest of the last plan, and breaks ties by the cost after the executed actions.

        >>> CategoricalCEM.experienced().candidates
        16
        """
        elites = changes.get("elites", 4)
        best = {"candidates": 16, "elites": elites, "keep_elites": elites // 2, "from_logs": True}
        return cls(actions, **{**best, "warm_start": True, "tie_break": 1e-3, **changes})

    @defer_device_checks()
    def plan(self, context: PlanContext) -> Tensor:
        """Return the best candidate of the last pool [B, H, 1]."""
        if context.model.action_dim != 1:
            raise ReachcostError(f"CategoricalCEM needs action_dim 1, not {context.model.action_dim}: use rc.CEM()")
        goal, device, injected = context.goal, context.latents.device, context.injected
        if injected is not None and injected.shape[1::2] != (self.iterations, self.horizon):
            wanted = f"the planner's {self.iterations} iterations and horizon {self.horizon}"
            raise ReachcostError(f"injected candidates have shape {injected.shape}: give the proposal {wanted}")
        given = None if injected is None else torch.from_numpy(injected).to(device).transpose(2, 3)
        places = self.candidates - (0 if given is None else given.shape[3])  # of the pool, before injected ones
        probability = torch.full((len(goal), self.horizon, self.actions), 1 / self.actions, device=device)
        if self.warm_start and context.left is not None:
            agreed = context.left == torch.arange(self.actions, device=device)  # [B, blocks, actions]
            probability[:, : agreed.shape[1]] = self._fitted(agreed.float())
        known = self._known(context, self.horizon, min(places, self.candidates // 2))
        none = torch.empty(len(goal), self.horizon, 0, dtype=torch.uint8, device=device)
        pool = best = kept = none if known is None else known[..., 0].transpose(1, 2)
        for iteration in range(self.iterations):
            if iteration:
                elites = pick(pool, best)
                frequency = torch.stack([(elites == action).float().mean(2) for action in range(self.actions)], -1)
                probability = self.momentum * probability + (1 - self.momentum) * self._fitted(frequency)
                kept = elites[:, :, : min(self.keep_elites, places)].to(pool.dtype)
            # [B, H, S]: with the candidates innermost each comparison runs over one contiguous row.
            draws = (context.streams.uniform16(self.horizon, self.candidates) ^ 0x8000).view(np.int16)
            pool = sample(probability, torch.from_numpy(draws).to(device))
            pool[:, :, places - kept.shape[2] : places] = kept
            if given is not None:
                pool[:, :, places:] = given[:, iteration]
            costs = self._costs(context, pool.transpose(1, 2)[..., None])
            best = lowest(costs, self.elites)
            if context.watch is not None:
                context.watch(Round(pool.transpose(1, 2)[..., None], costs, best, pick(pool, best[:, :1]).long()))
        return pick(pool, best[:, :1]).long()

    def _fitted(self, frequency: Tensor) -> Tensor:
        """Probabilities of actions [B, H, actions] from their frequency among the elites."""
        return (1 - self.prior) * frequency + self.prior / self.actions

    def _costs(self, context: PlanContext, pool: Tensor) -> Tensor:
        """Cost of each candidate in the pool [B, S, H, 1] -> [B, S]."""
        costs = context.costs(pool)
        if self.tie_break:
            costs = costs + self.tie_break * context.costs(pool[:, :, : self.blocks])
        return costs


def sample(probability: Tensor, draws: Tensor) -> Tensor:
    """Inverse-CDF sampling: probability [B, H, A], uniform int16 draws [B, H, S] -> actions [B, H, S].

    Actions are uint8, or int16 if there are more than 256. Probabilities are summed in float32, one after the other,
    because `cumsum` sums in float64 on a CPU.
    """
    count = probability.shape[2]
    actions = torch.zeros_like(draws, dtype=torch.uint8 if count <= 256 else torch.int16)
    for total in accumulate(probability.unbind(2)[:-1]):
        edge = ((65536 * total).clamp(max=65535).floor() - 32768).to(torch.int16)[..., None]
        actions += (draws >= edge).view(torch.uint8)
    return actions


def pick(pool: Tensor, indices: Tensor) -> Tensor:
    """Return candidates [B, K] of a pool [B, H, S] -> [B, H, K]."""
    return pool.gather(2, indices[:, None].expand(-1, pool.shape[1], -1))
