"""Faults, planted one at a time: each breaks one link of a world's planner, and the audit should name that one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.costs.head import HeadCost
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.fingerprint import fingerprint_of
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.protocols import Observations, SamplingPlanner, TerminalCost, WorldModel
from reachcost.tasks.contract import Task
from reachcost.worlds.world import World

NOISE = 1.0
"""Noise in predictions, in standard deviations of logged latents."""
SHORT = 2
"""Actions of an episode whose goals are out of reach."""


@dataclass(frozen=True)
class Planner:
    """A planner, whole or broken: what an audit is given."""

    world: World
    task: Task
    logs: Logs
    model: WorldModel
    cost: TerminalCost
    search: SamplingPlanner
    evaluation: EvaluationSet

    @property
    def latents(self) -> Latents:
        """The logs, encoded."""
        return encode_logs(self.model, self.logs)


def whole(world: World, part: str, seed: int = 0) -> Planner:
    """The planner of a world, with nothing broken."""
    task = world.task()
    logs = world.generate_logs(task)
    model = world.model(task, logs)
    cost = world.terminal_cost(task, model, logs, seed=seed)
    return Planner(world, task, logs, model, cost, world.planner, world.evaluation(task, part))


def _shuffled(planner: Planner) -> Planner:
    head = planner.world.repair(planner.task, planner.model, planner.logs, shuffled=True)
    return replace(planner, cost=HeadCost(head))


def _blind(planner: Planner) -> Planner:
    model = planner.world.blind(planner.model)
    return replace(planner, model=model, cost=planner.world.terminal_cost(planner.task, model, planner.logs))


def _noisy(planner: Planner) -> Planner:
    spread = planner.latents.values.std(0)
    return replace(planner, model=_Noisy(planner.model, NOISE * spread))


def _few_candidates(planner: Planner) -> Planner:
    search: Any = replace(planner.search, candidates=3, elites=2, iterations=1)  # pyright: ignore[reportArgumentType]
    return replace(planner, search=search)


def _gap(planner: Planner) -> Planner:
    states = np.asarray(planner.logs.columns["state"])
    logs = planner.logs.keep(np.flatnonzero(~planner.world.region(states)))
    head = planner.world.repair(planner.task, planner.model, logs)
    return replace(planner, logs=logs, cost=HeadCost(head))


def _short(planner: Planner) -> Planner:
    return replace(planner, evaluation=replace(planner.evaluation, budget=SHORT))


FAULTS: dict[str, Callable[[Planner], Planner]] = {
    "ranking": _shuffled,
    "representation": _blind,
    "dynamics": _noisy,
    "sampling": _few_candidates,
    "coverage": _gap,
    "goals": _short,
}
"""What breaks a planner, by the stage that is then to blame."""


class _Noisy:
    """A world model whose predictions are off by something that looks random and is the same every time."""

    def __init__(self, model: WorldModel, size: Tensor) -> None:
        self.model, self.size = model, size
        self.latent_dim, self.action_dim = model.latent_dim, model.action_dim
        self.actions = blocks_of(model)
        self.fingerprint = fingerprint_of(model)  # it encodes as that one does

    def encode(self, observations: Observations) -> Tensor:
        return self.model.encode(observations)

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        flat = torch.cat([context[:, -1:].expand(-1, actions.shape[1], -1), actions.flatten(2).float()], dim=2)
        mixed = torch.randn(flat.shape[2], self.latent_dim, generator=torch.Generator().manual_seed(0))
        # The sine of large numbers has no visible order; its deviation is the square root of a half.
        noise = 2**0.5 * torch.sin(1e3 * flat @ mixed)
        return self.model.rollout(context, actions) + self.size * noise
