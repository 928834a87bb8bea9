"""Oracle costs, which read the true state. They are references for diagnosis, not a repair."""

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

NO_PATH = 1e9  # cost of a state without a path to the goal, as costs must be finite


@runtime_checkable
class ExactModel(Protocol):
    """A world model with exact dynamics, whose latents contain the state."""

    @property
    def task(self) -> Task:
        """The simulated world."""
        ...

    def states(self, latents: Tensor) -> np.ndarray:
        """The states of latents: [..., D] -> [..., state]."""
        ...


def exact_model(task: Task, model: object, starts: np.ndarray) -> Any:
    """The world model of an oracle planner: `model` if it simulates the world of the task, else the simulator.

    The simulator takes the action blocks of `model`, and states of the shape and type of `starts` [N, ...].
    """
    exact = isinstance(model, ExactModel) and model.task.world == task.world
    return model if exact else ExactDynamics(task, blocks_of(model), starts)


@dataclass(frozen=True)
class OracleGeodesic:
    """True distance from the state of the terminal latent to the state of the goal latent."""

    model: ExactModel

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        ends = self.model.states(terminal)
        goals = np.broadcast_to(self.model.states(goal)[:, None], ends.shape)
        size = ends.shape[-1]
        distance = self.model.task.distance(ends.reshape(-1, size), goals.reshape(-1, size))
        finite = np.nan_to_num(np.asarray(distance, np.float32), nan=np.nan, posinf=NO_PATH)
        return torch.from_numpy(finite).view(terminal.shape[:2])


@dataclass(frozen=True)
class EncodedCost:
    """Scores exact latents by encoding their states with a world model."""

    exact: ExactDynamics
    model: WorldModel
    cost: TerminalCost

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        return self.cost(self._encoded(terminal), self._encoded(goal))

    def _encoded(self, latents: Tensor) -> Tensor:
        states = self.exact.states(latents.reshape(-1, latents.shape[-1]))
        encoded = self.model.encode(self.exact.task.observe(states))
        return encoded.view(*latents.shape[:-1], encoded.shape[-1])
