"""A cost of a model's latents where the planner knows states: for planning with true dynamics and the cost as it is."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.exact import ExactDynamics


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
