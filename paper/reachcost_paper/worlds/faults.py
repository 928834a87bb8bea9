"""Faults: each breaks one stage of a world's planner, and the audit should name that stage."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.costs.latent import HeadCost
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.models import fingerprint_of
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import Observations, TerminalCost, WorldModel
from reachcost.tasks.contract import Task
from reachcost_paper.worlds.sight import Wrapped
from reachcost_paper.worlds.suite import World

NOISE = 1.0
"""Noise in predictions, in standard deviations of logged latents."""
SHORT = 2
"""Actions per episode of the fault whose goals are out of reach."""


@dataclass(frozen=True)
class Planner:
    """An intact or faulty planner, as input of an audit."""

    world: World
    task: Task
    logs: Logs
    model: WorldModel
    cost: TerminalCost
    search: SamplingPlanner
    evaluation: EvaluationSet

    @property
    def latents(self) -> Latents:
        return encode_logs(self.model, self.logs)

    def unseen(self, seed: int) -> Logs:
        """Logs of the same kind that no head was trained on."""
        return self.task.generate_logs(**{**self.world.logs, "seed": seed})


def intact(world: World, part: str) -> Planner:
    task = world.task()
    logs = world.generate_logs(task)
    model = world.model(task, logs)
    cost = world.terminal_cost(task, model, logs)
    return Planner(world, task, logs, model, cost, world.planner, world.evaluation(task, part))


@dataclass(frozen=True)
class Fault:
    """A fault of one stage."""

    stage: str
    """The stage that the audit should name if the fault reduces success."""
    plant: Callable[[Planner], Planner]
    """Returns a planner with the fault."""
    fits: Callable[[World], bool] = lambda world: True
    """Whether the fault applies to a world."""
    only_by_harm: bool = False
    """Whether the verdict must be `none` while episodes succeed, even from logs alone."""


def _blind(planner: Planner) -> Planner:
    model = planner.world.blind(planner.model)
    return replace(planner, model=model, cost=planner.world.terminal_cost(planner.task, model, planner.logs))


def _noisy(planner: Planner) -> Planner:
    return replace(planner, model=_Noisy(planner.model, NOISE * planner.latents.values.std(0)))


def _few_candidates(planner: Planner) -> Planner:
    search: Any = replace(planner.search, candidates=3, elites=2, iterations=1)  # pyright: ignore[reportArgumentType]
    return replace(planner, search=search)


def _gap(planner: Planner) -> Planner:
    states = np.asarray(planner.logs.columns["state"])
    return _fitted_on(planner, planner.logs.keep(np.flatnonzero(~planner.world.region(states))))


def _wandering(planner: Planner) -> Planner:
    world = replace(planner.world, logs={**planner.world.logs, **planner.world.wandering})
    return _fitted_on(replace(planner, world=world), world.generate_logs(planner.task))


def _fitted_on(planner: Planner, logs: Logs, shuffled: bool = False) -> Planner:
    """The same planner with another head; the world model stays."""
    head = planner.world.repair(planner.task, planner.model, logs, shuffled=shuffled)
    return replace(planner, logs=logs, cost=HeadCost(head))


FAULTS = {
    "shuffled-head": Fault("ranking", lambda planner: _fitted_on(planner, planner.logs, shuffled=True)),
    "blind-encoder": Fault("representation", _blind),
    "noisy-predictions": Fault("dynamics", _noisy),
    "few-candidates": Fault("sampling", _few_candidates),
    "gap-in-logs": Fault("coverage", _gap),
    "far-goals": Fault("goals", lambda planner: replace(planner, evaluation=replace(planner.evaluation, budget=SHORT))),
    "wandering-logs": Fault("ranking", _wandering, lambda world: bool(world.wandering), only_by_harm=True),
}
"""Faults by name."""


class _Noisy(Wrapped):
    """A world model with deterministic noise in its predictions."""

    def __init__(self, model: WorldModel, size: Tensor) -> None:
        super().__init__(model)
        self.size, self.fingerprint = size, fingerprint_of(model)  # the encoder is the same

    def encode(self, observations: Observations) -> Tensor:
        return self.model.encode(observations)

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        flat = torch.cat([context[:, -1:].expand(-1, actions.shape[1], -1), actions.flatten(2).float()], dim=2)
        mixed = torch.randn(flat.shape[2], self.latent_dim, generator=torch.Generator().manual_seed(0))
        # The sine of large numbers looks random; its deviation is the square root of a half.
        noise = 2**0.5 * torch.sin(1e3 * flat @ mixed)
        return self.model.rollout(context, actions) + self.size * noise
