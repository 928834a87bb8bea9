"""The floor: uniformly random actions, whatever the goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.data.actions import blocks_of
from reachcost.data.fingerprint import name_of
from reachcost.errors import ReachcostError
from reachcost.planning.planner import PlanContext, Planner


@dataclass(frozen=True)
class RandomPolicy(Planner):
    """Draws every action uniformly: from the discrete ones, or within the range of the logs.

    A world model with action blocks (`model.actions`) has continuous actions.
    """

    actions: int = 5  # pyright: ignore[reportIncompatibleVariableOverride] (planners are frozen)
    """Number of discrete actions, where actions are discrete."""

    def plan(self, context: PlanContext) -> Tensor:
        """Return one random block per episode [B, 1, A]."""
        model, streams = context.model, context.streams
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
