"""Oracle costs read the true state: they are references for diagnosis, never a repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from reachcost.data.actions import blocks_of
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task
from reachcost.tasks.exact import ExactDynamics

NO_WAY = 1e9
"""Cost of an end that no way leads on from to the goal: a cost must be finite to be ranked."""


@runtime_checkable
class ExactModel(Protocol):
    """A world model of exact dynamics, whose latents tell the state."""

    @property
    def task(self) -> Task:
        """The world it is exact about."""
        ...

    def states(self, latents: Tensor) -> np.ndarray:
        """The states behind latents: [..., D] -> [..., state]."""
        ...


def exact_model(task: Task, model: object, starts: np.ndarray) -> Any:
    """The world model that an oracle plans with: `model` if it is exact about this very world, or the simulator.

    Args:
        task: The world.
        model: The planner's world model, which says how its actions are made.
        starts: Some states, which tell the simulator their kind [N, ...].
    """
    exact = isinstance(model, ExactModel) and model.task.world == task.world
    return model if exact else ExactDynamics(task, blocks_of(model), starts)


@dataclass(frozen=True)
class OracleGeodesic:
    """True distance from the state behind the terminal latent to the state behind the goal latent."""

    model: ExactModel

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        ends = self.model.states(terminal)
        goals = np.broadcast_to(self.model.states(goal)[:, None], ends.shape)
        size = ends.shape[-1]
        distance = self.model.task.distance(ends.reshape(-1, size), goals.reshape(-1, size))
        finite = np.nan_to_num(np.asarray(distance, np.float32), nan=np.nan, posinf=NO_WAY)
        return torch.from_numpy(finite).view(terminal.shape[:2])


@dataclass(frozen=True)
class EncodedCost:
    """Shows the states behind exact latents to a world model, and scores what it makes of them."""

    exact: ExactDynamics
    model: WorldModel
    cost: TerminalCost

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal states [B, S, D] against goal states [B, D]."""
        return self.cost(self._seen(terminal), self._seen(goal))

    def _seen(self, latents: Tensor) -> Tensor:
        states = self.exact.states(latents.reshape(-1, latents.shape[-1]))
        seen = self.model.encode(self.exact.task.observe(states))
        return seen.view(*latents.shape[:-1], seen.shape[-1])
