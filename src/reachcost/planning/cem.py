"""The cross-entropy method for continuous actions, as the paper's controller runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import defer_device_checks
from reachcost.core.parallel import reserve_threads
from reachcost.errors import ReachcostError, require_numbers
from reachcost.planning.logged_actions import AMONG
from reachcost.planning.planner import PlanContext, Round, SamplingPlanner, lowest, require_blocks
from reachcost.protocols import WorldModel

Bound = float | tuple[float, ...]


@dataclass(frozen=True)
class CEM(SamplingPlanner):
    """Fits a diagonal Gaussian over standardised action blocks to the elites of each round, then takes its mean.

    The defaults are the paper's. Class methods are presets; docs/planners.md compares them.

    >>> CEM(blocks=1, warm_start=True, deviation=0.5, bounds="logs", keep_elites=5).executed
    1
    """

    discrete = False

    horizon: int = 5  # action blocks per candidate
    candidates: int = 300  # candidates per round; the first one is the mean
    iterations: int = 10  # number of rounds of sampling and scoring
    elites: int = 30  # number of best candidates that the Gaussian is fitted to
    execute: Literal["mean", "best"] = "mean"  # the mean of the last elites, or the best candidate of the last pool
    blocks: int | None = None  # action blocks of a plan that are executed before the next plan; None executes all
    warm_start: bool = False  # initial mean: the unexecuted rest of the last plan, then zeros, the mean of the logs
    deviation: float = 1.0  # initial standard deviation, in multiples of that of the logged actions
    correlation: float = 0.0  # between the noise of consecutive actions; logs of purposeful motion have 0.8 and more
    # Range of candidates: that of the logged actions, or (low, high) in units of the environment; None does not clip.
    bounds: Literal["logs"] | tuple[Bound, Bound] | None = None
    keep_elites: int = 0  # number of elites that take the last places in the next pool
    from_logs: bool = False  # begin with logged action sequences that began nearest to the current latent; needs logs
    logged_among: int = 0  # number of nearest sequences to select from by their logged ends; 0 takes the nearest
    least_deviation: float = 0.0  # minimum standard deviation after the first round
    # Weigh elites by exp(-standardised cost / temperature) and keep the deviation constant; 0 weighs elites equally.
    temperature: float = 0.0
    shrink: bool = False  # plan at most the blocks that the budget of the episode leaves

    def __post_init__(self) -> None:
        require_numbers(self)
        self._require_counts(fewest=2)
        self._require("execute", self.execute in ("mean", "best"), "choose 'mean' or 'best'")
        self._require("deviation", 0 < self.deviation < np.inf, "give a positive number")
        self._require("least_deviation", 0 <= self.least_deviation < np.inf, "give a positive number, or 0 for none")
        self._require("temperature", 0 <= self.temperature < np.inf, "give a positive number, or 0 for equal weights")
        self._require("correlation", 0 <= self.correlation < 1, "give a number from 0 to below 1")
        self._require("logged_among", self.from_logs or not self.logged_among, "give 0, or from_logs=True")
        self._require("logged_among", self.logged_among >= 0, "give a number of sequences, or 0 for the nearest ones")
        if self.bounds is not None and not (isinstance(self.bounds, str) and self.bounds == "logs"):
            given = self.bounds if isinstance(self.bounds, tuple | list | np.ndarray) else ()
            self._require("bounds", len(given) == 2, "give 'logs' or (low, high) in units of the environment")
            object.__setattr__(self, "bounds", tuple(map(_plain, given)))  # plain numbers go into records

    @classmethod
    def replanning(cls, **changes: Any) -> CEM:
        """Plan again after every block, in three rounds that start from the rest of the last plan.

        An error of the world model then costs one block only.

        >>> CEM.replanning(candidates=100).iterations
        3
        """
        return cls(**{"blocks": 1, "warm_start": True, "shrink": True, "iterations": 3, **changes})

    @classmethod
    def improved(cls, **changes: Any) -> CEM:
        """iCEM (Pinneri et al. 2020): noise correlated over time, elites kept between rounds, actions within the logs.

        In contrast to the paper of iCEM, the noise is autoregressive, and pools do not shrink.

        >>> CEM.improved().keep_elites
        5
        """
        elites = changes.setdefault("elites", max(2, changes.get("candidates", cls.candidates) // 10))
        kept = {"keep_elites": min(5, elites // 2)}
        return cls(**{"correlation": 0.8, "bounds": "logs", "execute": "best", **kept, **changes})

    @classmethod
    def mppi(cls, **changes: Any) -> CEM:
        """MPPI: move the mean to the average of all candidates, weighted by cost, and keep the deviation.

        >>> CEM.mppi(candidates=100).elites
        100
        """
        return cls(**{"elites": changes.get("candidates", cls.candidates), "temperature": 0.2, **changes})

    @classmethod
    def experienced(cls, **changes: Any) -> CEM:
        """Begin with logged action sequences and search around them, with a sixteenth of the paper's rollouts.

        docs/speed.md reports its success.

        >>> CEM.experienced().candidates
        37
        """
        elites = changes.setdefault("elites", max(2, min(8, changes.get("candidates", 37) // 4)))
        best = {"candidates": 37, "iterations": 5, "keep_elites": elites // 2, "from_logs": True}
        return cls(**{**best, "logged_among": AMONG, "least_deviation": 0.5, "correlation": 0.8, **changes})

    @reserve_threads()
    @defer_device_checks()
    def plan(self, context: PlanContext) -> Tensor:
        """Return the mean of the last elites, or the best of the last candidates [B, H, A]."""
        if context.injected is not None:
            raise ReachcostError("CEM has no injected candidates: plan without a proposal, or with CategoricalCEM")
        model, goal, device = context.model, context.goal, context.latents.device
        mean = torch.zeros(len(goal), self._length(context), model.action_dim, device=device)
        if self.warm_start and context.left is not None:
            mean[:, : context.left.shape[1]] = context.left[:, : mean.shape[1]]
        std, rows = torch.full_like(mean, self.deviation), torch.arange(len(goal), device=device)[:, None]
        bounds, mixing = self._bounds(model, device), self._mixing(model, mean.shape[1], device)
        known, elites = self._known(context, mean.shape[1], self.candidates - 1), mean[:, None]
        for iteration in range(self.iterations):
            noise = torch.from_numpy(context.streams.normal(self.candidates, *mean.shape[1:])).to(device)
            if mixing is not None:
                noise = (mixing @ noise.view(*noise.shape[:2], len(mixing), -1)).view_as(noise)
            pool = torch.addcmul(mean[:, None], std[:, None], noise)
            if known is not None and iteration == 0:
                pool[:, 1 : 1 + known.shape[1]] = known
            pool[:, 0] = mean
            if bounds is not None:
                pool = torch.minimum(torch.maximum(pool, bounds[0]), bounds[1])
            if self.keep_elites and iteration:
                pool[:, -self.keep_elites :] = elites[:, : self.keep_elites]
            costs = context.costs(pool)
            best = lowest(costs, self.elites)
            elites = pool[rows, best]
            if self.temperature:
                mean = (self._weights(costs.gather(1, best))[..., None, None] * elites).sum(1)
            else:
                mean, std = elites.mean(1), elites.std(1).clamp(min=self.least_deviation)
            if context.watch is not None:
                context.watch(Round(pool, costs, best, mean if self.execute == "mean" else elites[:, 0]))
        return mean if self.execute == "mean" else elites[:, 0]

    def _length(self, context: PlanContext) -> int:
        """Blocks of a plan."""
        if not self.shrink or context.remaining is None:
            return self.horizon
        if context.remaining < 1:
            raise ReachcostError(f"remaining is {context.remaining}: give at least one block")
        return min(self.horizon, context.remaining)

    def _weights(self, costs: Tensor) -> Tensor:
        """Weights of the elites [B, K] from their costs."""
        spread = costs.std(1, keepdim=True).clamp(min=1e-12)
        return (-(costs - costs.amin(1, keepdim=True)) / (self.temperature * spread)).softmax(1)

    def _mixing(self, model: WorldModel, horizon: int, device: torch.device) -> Tensor | None:
        """Matrix [T, T] with rows of norm 1 that correlates independent noise of consecutive actions [..., T, a]."""
        if not self.correlation:
            return None
        blocks = require_blocks(model, f"CEM(correlation={self.correlation})")
        steps = torch.arange(horizon * blocks.length, device=device)
        apart = steps[:, None] - steps
        innovation = torch.where(steps > 0, (1 - self.correlation**2) ** 0.5, 1.0)
        return torch.where(apart >= 0, self.correlation ** apart.clamp(min=0) * innovation, 0.0)

    def _bounds(self, model: WorldModel, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """Lowest and highest block of a candidate, each [A]."""
        if self.bounds is None:
            return None
        blocks = require_blocks(model, f"CEM(bounds={self.bounds!r})")
        low, high = blocks.bounds(*(() if self.bounds == "logs" else self.bounds))
        return low.to(device), high.to(device)


def _plain(bound: Bound | np.ndarray) -> Bound:
    return tuple(map(float, bound)) if np.ndim(bound) else float(bound)  # pyright: ignore[reportArgumentType]
