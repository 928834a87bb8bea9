"""The floor: uniformly random actions, whatever the goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.base.seeding import EpisodeStreams
from reachcost.data.actions import blocks_of
from reachcost.data.fingerprint import name_of
from reachcost.errors import ReachcostError
from reachcost.protocols import TerminalCost, WorldModel


@dataclass(frozen=True)
class RandomPolicy:
    """Draws every action uniformly: from the discrete ones, or within the range of the logs.

    A world model with action blocks (`model.actions`) has continuous actions.
    """

    actions: int = 5
    """Number of discrete actions, where actions are discrete."""

    @property
    def executed(self) -> int:
        """Action blocks executed before the next plan."""
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
        """Return one random block per episode [B, 1, A]; cost, goal and injected candidates are ignored."""
        blocks = blocks_of(model)
        if blocks is None:
            if model.action_dim != 1:
                raise ReachcostError(
                    f"{name_of(model)} has continuous actions but no `actions` that tell their range: add "
                    "model = rc.with_actions(model, logs, length=...)"
                )
            return torch.from_numpy(streams.integers(self.actions, 1, 1))
        low, high = blocks.bounds()
        share = torch.from_numpy(streams.uniform16(1, blocks.size).astype(np.float32)) / 65535
        return low + share * (high - low)
