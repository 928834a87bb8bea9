"""Oracle costs: they read the true state, so they are ceilings for diagnosis and never a repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from reachcost.tasks.contract import Task


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
        return torch.from_numpy(np.asarray(distance, np.float32)).view(terminal.shape[:2])
