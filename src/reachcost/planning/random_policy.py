"""The floor: uniformly random actions, whatever the goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.protocols import TerminalCost, WorldModel
from reachcost.seeding import EpisodeStreams


@dataclass(frozen=True)
class RandomPolicy:
    """Draws every action uniformly from the discrete ones."""

    actions: int = 5
    """Number of discrete actions."""

    @property
    def executed(self) -> int:
        """Actions executed before the next plan."""
        return 1

    def plan(
        self,
        model: WorldModel,
        cost: TerminalCost,
        context: Tensor,
        goal: Tensor,
        streams: EpisodeStreams,
        injected: np.ndarray | None = None,
    ) -> Tensor:
        """Return one random action per episode [B, 1, 1]; model, cost, goal and injected candidates are ignored."""
        return torch.from_numpy(streams.integers(self.actions, 1, 1))
