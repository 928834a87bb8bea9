"""The cross-entropy method for continuous actions, as the paper's controller runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import defer_device_checks
from reachcost.core.parallel import reserve_threads
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.errors import ReachcostError, require_numbers
from reachcost.planning.logged_actions import AMONG
from reachcost.planning.planner import PlanContext, Round, SamplingPlanner, lowest, require_logged
from reachcost.protocols import WorldModel

Bound = float | tuple[float, ...]


class Search(NamedTuple):
    """How the search for B action sequences ended."""

    mean: Tensor
    """Mean of the last elites [B, H, A]; it was never scored."""
    pool: Tensor
    """The last candidates [B, S, H, A]."""
    costs: Tensor
    """Their costs [B, S]."""


@dataclass(frozen=True)
class CEM(SamplingPlanner):
    """Fit a diagonal Gaussian over action blocks to the elites, ten times, then take its mean.

    Works in the standardised coordinates of the model's action blocks. By default as in the paper: no smoothing, no
    floor under the standard deviation, no clipping (the environment clips its actions), all of a plan executed, every
    plan from scratch. Class methods are presets of the options; docs/planners.md compares them.

    >>> CEM(blocks=1, warm_start=True, deviation=0.5, bounds="logs", keep_elites=5).executed
    1
    """

    discrete = False

    horizon: int = 5
    """Action blocks per candidate."""
    candidates: int = 300
    """Candidate action sequences per iteration; the first of them is the mean."""
    iterations: int = 10
    """Rounds of sampling and scoring."""
    elites: int = 30
    """Best candidates the Gaussian is fitted to."""
    execute: Literal["mean", "best"] = "mean"
    """What is executed: the mean of the last elites, which was never scored, or the best candidate of the last pool.
    The latter is safer where the cost can be trusted."""
    blocks: int | None = None
    """Action blocks of a plan that are executed before the next plan; None executes all."""
    warm_start: bool = False
    """Begin with what the last plan of the episode left unexecuted as the mean, followed by zeros, the mean of the
    logs; else with zeros alone."""
    deviation: float = 1.0
    """Initial standard deviation, in multiples of that of the logged actions."""
    correlation: float = 0.0
    """Correlation of the noise of an action with that of the next: 0 lets every action vary by itself, which shakes a
    body rather than moving it; logs of purposeful motion have 0.8 and more."""
    bounds: Literal["logs"] | tuple[Bound, Bound] | None = None
    """Clip candidates to the range of the logged actions, or to (low, high) in units of the environment, each a number
    or one per component; None clips nothing."""
    keep_elites: int = 0
    """Best candidates of an iteration, some or all of the elites, that take the last places in the next pool."""
    from_logs: bool = False
    """Begin with what was done before: the first pool is the mean and the logged action sequences that began nearest to
    the present latent. `control` is then given the encoded logs."""
    logged_among: int = 0
    """Of so many logged sequences that began nearest, take those that ended best: the cost is asked about latents that
    were logged, no rollout is needed. 0 takes the nearest themselves."""
    least_deviation: float = 0.0
    """No standard deviation of a later pool is smaller: sequences from logs may agree before they are right."""
    temperature: float = 0.0
    """Weigh elites by exp(-cost / temperature), costs counted in standard deviations of theirs, and leave the
    deviation as it is: with all candidates as elites that is MPPI. 0 weighs all alike."""
    shrink: bool = False
    """Plan no further than the budget of the episode goes: a plan has `horizon` blocks, or those that are left, rounded
    up, if they are fewer. With a horizon that reaches it, what counts is where the episode ends, no point beyond."""

    def __post_init__(self) -> None:
        require_numbers(self)
        self._require_counts(fewest=2)
        if self.execute not in ("mean", "best"):
            raise ReachcostError(f"CEM(execute={self.execute!r}): execute the mean or the best")
        if not 0 < self.deviation < np.inf:
            raise ReachcostError(f"CEM(deviation={self.deviation}): give a positive deviation")
        if not 0 <= self.least_deviation < np.inf:
            raise ReachcostError(f"CEM(least_deviation={self.least_deviation}): give a deviation, or 0 for none")
        if self.logged_among < 0 or (self.logged_among and not self.from_logs):
            raise ReachcostError(
                f"CEM(logged_among={self.logged_among}, from_logs={self.from_logs}): give 0, or a number of logged "
                "sequences beside from_logs=True"
            )
        if not 0 <= self.temperature < np.inf:
            raise ReachcostError(f"CEM(temperature={self.temperature}): give a temperature, or 0 to weigh elites alike")
        if not 0 <= self.correlation < 1:
            raise ReachcostError(f"CEM(correlation={self.correlation}): give a number from 0 to below 1")
        if self.bounds is not None and self.bounds != "logs":
            if not isinstance(self.bounds, tuple | list | np.ndarray) or len(self.bounds) != 2:
                raise ReachcostError(
                    f"CEM(bounds={self.bounds!r}): give bounds='logs' or (low, high), in units of the environment"
                )
            ends = tuple(_plain(end) for end in self.bounds)
            object.__setattr__(self, "bounds", ends)  # plain numbers go into records

    @classmethod
    def replanning(cls, **changes: Any) -> CEM:
        """Plan again after every block, in three rounds that start from the rest of the last plan.

        The paper's planner executes a whole plan without looking: an error of the world model costs all of its steps.
        This one takes 15 rounds for five blocks, the paper's takes 10. With `shrink` the goal must be reached by the
        end of the budget, not always a whole horizon later.

        >>> CEM.replanning(candidates=100).iterations
        3
        """
        return cls(**{"blocks": 1, "warm_start": True, "shrink": True, "iterations": 3, **changes})

    @classmethod
    def improved(cls, **changes: Any) -> CEM:
        """iCEM (Pinneri et al. 2020): noise correlated over time, elites kept between rounds, actions within the logs.

        Its noise is autoregressive, not coloured by a Fourier transform, and pools do not shrink.

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

        The first pool holds logged action sequences from states like the present one that ended nearest to the goal;
        later pools vary the best of them, with noise correlated over time. `candidates=75` takes an eighth of the
        paper's rollouts. See docs/speed.md for its success and how it was chosen.

        >>> CEM().candidates * CEM().iterations / (CEM.experienced().candidates * CEM.experienced().iterations)
        16.216216216216218
        """
        elites = changes.setdefault("elites", max(2, min(8, changes.get("candidates", 37) // 4)))
        best = {"candidates": 37, "iterations": 5, "keep_elites": elites // 2, "from_logs": True}
        return cls(**{**best, "logged_among": AMONG, "least_deviation": 0.5, "correlation": 0.8, **changes})

    def plan(self, context: PlanContext) -> Tensor:
        """The mean of the last elites, or the best of the last candidates [B, H, A]."""
        found = self.search(context)
        if self.execute == "mean":
            return found.mean
        rows = torch.arange(len(found.pool), device=found.pool.device)[:, None]
        return found.pool[rows, lowest(found.costs, 1)][:, 0]

    @reserve_threads()
    @defer_device_checks()
    def search(self, context: PlanContext) -> Search:
        """The mean that `plan` finds, with the last candidates and their costs."""
        if context.injected is not None:
            raise ReachcostError("CEM takes no injected candidates: plan without a proposal, or with CategoricalCEM")
        model, goal, device = context.model, context.goal, context.latents.device
        mean = torch.zeros(len(goal), self._length(context), model.action_dim, device=device)
        if self.warm_start and context.left is not None:
            mean[:, : context.left.shape[1]] = context.left[:, : mean.shape[1]]
        std, rows = torch.full_like(mean, self.deviation), torch.arange(len(goal), device=device)[:, None]
        bounds, mixing = self._bounds(model, device), self._mixing(model, mean.shape[1], device)
        pool = costs = mean
        kept = pool[:, :0]
        known = self._known(context, mean.shape[1])
        for _ in range(self.iterations):
            noise = torch.from_numpy(context.streams.normal(self.candidates, *mean.shape[1:])).to(device)
            if mixing is not None:
                noise = (mixing @ noise.view(*noise.shape[:2], len(mixing), -1)).view_as(noise)
            pool = torch.addcmul(mean[:, None], std[:, None], noise)
            if known is not None:
                pool[:, 1 : 1 + known.shape[1]], known = known, None
            pool[:, 0] = mean
            if bounds is not None:
                pool = torch.minimum(torch.maximum(pool, bounds[0]), bounds[1])
            if kept.shape[1]:
                pool[:, -kept.shape[1] :] = kept
            costs = context.costs(pool)
            best = lowest(costs, self.elites)
            elites = pool[rows, best]
            kept = elites[:, : self.keep_elites]
            if self.temperature:
                mean = (self._weights(costs.gather(1, best))[..., None, None] * elites).sum(1)
            else:
                mean, std = elites.mean(1), elites.std(1).clamp(min=self.least_deviation)
            if context.watch is not None:
                context.watch(Round(pool, costs, best, mean if self.execute == "mean" else elites[:, 0]))
        return Search(mean, pool, costs)

    def _length(self, context: PlanContext) -> int:
        """Blocks of a plan."""
        if not self.shrink or context.remaining is None:
            return self.horizon
        if context.remaining < 1:
            raise ReachcostError(f"remaining is {context.remaining}: no plan fits in a budget that leaves no block")
        return min(self.horizon, context.remaining)

    def _weights(self, costs: Tensor) -> Tensor:
        """How much each elite counts, from costs [B, K]."""
        spread = costs.std(1, keepdim=True).clamp(min=1e-12)
        return (-(costs - costs.amin(1, keepdim=True)) / (self.temperature * spread)).softmax(1)

    def _known(self, context: PlanContext, horizon: int) -> Tensor | None:
        """Logged action sequences for the first pool [B, up to S - 1, horizon, A]."""
        if not self.from_logs:
            return None
        logged, here, count = require_logged(self, context.logged), context.latents[:, -1], self.candidates - 1
        if not self.logged_among:
            return logged.near(here, horizon, count)
        return logged.best(context.cost, here, context.goal, horizon, count, max(count, self.logged_among))

    def _mixing(self, model: WorldModel, horizon: int, device: torch.device) -> Tensor | None:
        """What makes independent noise of T actions in a row [..., T, a] correlated: [T, T], each row of length 1."""
        if not self.correlation:
            return None
        steps = torch.arange(horizon * self._blocks(model, "correlation").length, device=device)
        apart = steps[:, None] - steps
        innovation = torch.where(steps > 0, (1 - self.correlation**2) ** 0.5, 1.0)
        return torch.where(apart >= 0, self.correlation ** apart.clamp(min=0) * innovation, 0.0)

    def _bounds(self, model: WorldModel, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """The lowest and highest block a candidate may hold, each [A]."""
        if self.bounds is None:
            return None
        blocks = self._blocks(model, "bounds")
        low, high = blocks.bounds() if self.bounds == "logs" else blocks.bounds(*self.bounds)
        return low.to(device), high.to(device)

    def _blocks(self, model: WorldModel, option: str) -> ActionBlocks:
        blocks = blocks_of(model)
        if blocks is None:
            raise ReachcostError(
                f"CEM({option}={getattr(self, option)!r}) is about actions, but the world model does not say how its "
                "blocks stand for them: add model = rc.with_actions(model, logs, length=...)"
            )
        return blocks


def _plain(bound: Bound | np.ndarray) -> Bound:
    return tuple(map(float, bound)) if np.ndim(bound) else float(bound)  # pyright: ignore[reportArgumentType]
