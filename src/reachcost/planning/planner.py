"""Planners: the context of a plan, the base classes, and two policies that do not search.

Shapes are those of `reachcost.protocols`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import move_to_device
from reachcost.core.parallel import parallel_map
from reachcost.core.seeding import EpisodeStreams
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.models import name_of, predict_ends
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.inverse import InverseDynamics
from reachcost.protocols import TerminalCost, WorldModel

if TYPE_CHECKING:
    from reachcost.planning.logged_actions import LoggedActions


Logged = TypeVar("Logged")


class Round(NamedTuple):
    """Candidates that a planner sampled and kept in one round, for B episodes."""

    pool: Tensor  # candidates [B, S, H, A]
    costs: Tensor  # their costs [B, S]
    elites: Tensor  # indices of the kept candidates, best first [B, K]
    plan: Tensor  # the plan if this round were the last [B, H, A]


Watch = Callable[[Round], None]  # called with every round of a search; it must not change the tensors


@dataclass(frozen=True)
class PlanContext:
    """Everything that a planner may use to plan the next actions of B episodes; `reachcost.control` makes it.

    >>> from reachcost import CategoricalCEM, LatentMSE
    >>> from reachcost.tasks import ExactTopoNav
    >>> model = ExactTopoNav()
    >>> here, goal, streams = model.latents[:1, None], model.latents[9:10], EpisodeStreams(0, "plan", [0], 0)
    >>> CategoricalCEM().plan(PlanContext(model, LatentMSE(), here, goal, streams)).shape
    torch.Size([1, 12, 1])
    """

    model: WorldModel  # the frozen world model
    cost: TerminalCost  # the terminal cost
    latents: Tensor  # the last T frames [B, T, D], one action block apart, newest last; T is 1 without a `history`
    goal: Tensor  # goal latents [B, D]
    streams: EpisodeStreams  # random streams of the B episodes
    past: Tensor | None = None  # action blocks executed between the T frames [B, T - 1, A]; None if T is 1
    left: Tensor | None = None  # action blocks that the last plan left unexecuted [B, up to H, A]; None without one
    remaining: int | None = None  # action blocks that the budget leaves, rounded up; None if there is no limit
    logged: LoggedActions | None = None  # logged action sequences; None without logs
    injected: np.ndarray | None = None  # candidates [B, iterations, K, H] that the protocol adds to every pool
    watch: Watch | None = None  # function that is called with every round of the search

    def ends(self, actions: Tensor) -> Tensor:
        """Predict terminal latents [B, S, D] of candidates [B, S, H, A]."""
        if self.past is not None:
            past = self.past[:, None].expand(-1, actions.shape[1], -1, -1)
            actions = torch.cat([past.to(actions), actions], dim=2)
        return predict_ends(self.model, self.latents, actions)

    def costs(self, actions: Tensor) -> Tensor:
        """Costs [B, S] of candidates [B, S, H, A]; lower is better."""
        return self.cost(self.ends(actions), self.goal)


class Planner:
    """Base class of planners: `plan` chooses actions, the attributes declare what the planner can do.

    >>> class Ahead(Planner):
    ...     def plan(self, context: PlanContext) -> Tensor:
    ...         return torch.ones(len(context.goal), 1, context.model.action_dim)
    >>> Ahead().executed
    1
    """

    executed: int = 1  # action blocks of a plan that are executed before the next plan
    discrete: bool | None = None  # whether actions are discrete; None if the planner chooses actions of both kinds
    actions: int | None = None  # number of discrete actions that it chooses from; None if any number fits
    from_logs: bool = False  # whether it needs logged actions (`PlanContext.logged`)
    shrink: bool = False  # whether a plan has at most `PlanContext.remaining` blocks

    def plan(self, context: PlanContext) -> Tensor:
        """Choose an action sequence [B, H, A] for each episode; H is at least `executed`, unless the budget ends."""
        raise NotImplementedError(f"{type(self).__name__} has no `plan`")


def require_logged(planner: Planner, logged: Logged | None) -> Logged:
    """Return the logs that a planner needs; raise an error for None."""
    if logged is None:
        remedy = "give control(..., logs=rc.encode_logs(model, logs))"
        raise ReachcostError(f"{type(planner).__name__}(from_logs=True) begins with logged actions: {remedy}")
    return logged


def require_blocks(model: WorldModel, planner: str) -> ActionBlocks:
    """Return the action blocks of a world model; raise an error if it has none."""
    if (blocks := blocks_of(model)) is None:
        remedy = "add model = rc.with_actions(model, logs, length=...)"
        raise ReachcostError(f"{planner} needs action blocks, but {name_of(model)} has no `actions`: {remedy}")
    return blocks


class SamplingPlanner(Planner):
    """Base class of planners that sample candidates in rounds, and call `PlanContext.watch` with each round."""

    horizon: int  # action blocks per candidate
    candidates: int  # candidates per round
    iterations: int  # number of rounds of sampling and scoring
    elites: int  # number of best candidates that a round keeps
    keep_elites: int = 0  # number of elites that stay in the pool of the next round
    blocks: int | None = None  # action blocks of a plan that are executed before the next plan; None executes all
    warm_start: bool = False  # whether a search begins with what the last plan left (`PlanContext.left`)
    logged_among: int = 0  # number of nearest logged sequences to select from by their ends; 0 takes the nearest

    @property
    def executed(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] (planners are frozen)
        """Action blocks of a plan that are executed before the next plan."""
        return self.horizon if self.blocks is None else self.blocks

    def _known(self, context: PlanContext, horizon: int, count: int) -> Tensor | None:
        """Logged action sequences for the first pool [B, up to `count`, horizon, A]; None if it uses no logs."""
        if not self.from_logs:
            return None
        logged, here = require_logged(self, context.logged), context.latents[:, -1]
        if not self.logged_among:
            return logged.near(here, horizon, count)
        return logged.best(context.cost, here, context.goal, horizon, count, max(count, self.logged_among))

    def _require(self, options: str, valid: bool, remedy: str) -> None:
        """Raise an error that shows some options unless they are valid."""
        if not valid:
            given = ", ".join(f"{name}={getattr(self, name)!r}" for name in options.split())
            raise ReachcostError(f"{type(self).__name__}({given}): {remedy}")

    def _require_counts(self, fewest: int) -> None:
        """Raise an error for counts that contradict each other; at least `fewest` elites fit a distribution."""
        counted = min(self.horizon, self.iterations) >= 1 and fewest <= self.elites <= self.candidates
        remedy = f"make every count positive, and {fewest} <= elites <= candidates"
        self._require("horizon candidates iterations elites", counted, remedy)
        executable = 1 <= self.executed <= self.horizon
        self._require("horizon blocks", executable, f"execute 1 to {self.horizon} blocks of the horizon")
        left = not self.warm_start or self.executed < self.horizon
        remedy = "a warm start needs unexecuted blocks: execute fewer, for example blocks=1"
        self._require("horizon blocks warm_start", left, remedy)
        kept = 0 <= self.keep_elites <= self.elites and self.keep_elites < self.candidates
        remedy = f"keep 0 to {self.elites} elites, and fewer than the candidates"
        self._require("candidates elites keep_elites", kept, remedy)


def lowest(costs: Tensor, count: int) -> Tensor:
    """Indices [B, count] of the lowest costs [B, S], lowest first; of equal costs the lower index comes first.

    A float32 and its index make one integer key, so no device has to break ties.

    >>> lowest(torch.tensor([[3.0, 1.0, 1.0, 2.0]]), 3).tolist()
    [[1, 2, 3]]
    """
    bits = (costs.float() + 0.0).view(torch.int32).long()
    ordered = torch.where(bits < 0, -(2**31) - bits, bits)  # IEEE floats in the order of their values
    size = costs.shape[1]
    keys = ordered * size + torch.arange(size, device=costs.device)
    return keys.topk(count, largest=False).values % size


@dataclass(frozen=True)
class RandomPolicy(Planner):
    """Samples every action uniformly: one of `actions` discrete ones, or within the range of the logs."""

    actions: int = 5  # pyright: ignore[reportIncompatibleVariableOverride] (planners are frozen)

    def plan(self, context: PlanContext) -> Tensor:
        """Return one random block per episode [B, 1, A]."""
        model, streams = context.model, context.streams
        if model.action_dim == 1 and blocks_of(model) is None:
            return torch.from_numpy(streams.integers(self.actions, 1, 1))
        low, high = require_blocks(model, "RandomPolicy").bounds()
        share = torch.from_numpy(streams.uniform16(1, model.action_dim).astype(np.float32)) / 65535
        return low + share * (high - low)


@dataclass(frozen=True)
class InversePolicy(Planner):
    """Executes the actions that an inverse-dynamics network predicts from the newest frame, without a search.

    >>> from reachcost import LatentMSE, control, make_task
    >>> from reachcost.peers import InverseRecipe, fit_inverse
    >>> from reachcost.tasks import ExactTopoNav
    >>> task, model = make_task("toponav"), ExactTopoNav()
    >>> few = task.evaluation_set().spread(5)
    >>> quick = InverseRecipe(hidden=32, epochs=2)
    >>> policy = InversePolicy(fit_inverse(model, task.generate_logs(100), exclude=few, pairs=2000, recipe=quick))
    >>> control(task, model, {"gc-idm": LatentMSE()}, few, planner=policy).success.shape
    (1, 5)
    """

    network: InverseDynamics  # what `fit_inverse` returns
    sampled: bool = False  # sample discrete actions, as the most probable actions may lead in a circle

    def __post_init__(self) -> None:
        require_type(self.network, InverseDynamics, "network", "give what rc.peers.fit_inverse returns")
        if self.sampled and not self.discrete:
            raise ReachcostError("InversePolicy(sampled=True) samples discrete actions, not blocks: leave it out")

    @property
    def discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] (planners are frozen)
        """Whether its actions are discrete."""
        return self.network.discrete

    @torch.no_grad()
    def plan(self, context: PlanContext) -> Tensor:
        """Return one block per episode [B, 1, A]."""
        model, goal = context.model, context.goal
        known = self.network.latent_dim, self.network.action_dim
        if known != (model.latent_dim, model.action_dim):
            raise ReachcostError(
                f"this policy was trained on latents of dimension {known[0]} and blocks of {known[1]} numbers, but "
                f"{name_of(model)} has {model.latent_dim} and {model.action_dim}: train one with this world model"
            )
        move_to_device(self.network, goal.device)
        episodes: list[tuple[Tensor, ...]] = list(zip(context.latents[:, -1:], goal, strict=True))
        if self.sampled:
            draws = torch.from_numpy(context.streams.uniform16(1).astype(np.float32) / 65536).to(goal.device)
            episodes = [(*episode, draw) for episode, draw in zip(episodes, draws, strict=True)]
        return torch.stack(parallel_map(lambda episode: self.network.act(*episode), episodes))
