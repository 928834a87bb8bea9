"""The world model and the costs of TopoNav as look-up tables, which plan faster.

TopoNav has 677 states. The latent of a tabular model is the number of the state, and a cost is a table of goals and
states. The planner and the control loop do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from reachcost.costs.latent import HybridCost
from reachcost.protocols import Observations, TerminalCost
from reachcost.tasks.toponav.features import ExactTopoNav, follow


@dataclass(frozen=True)
class TabularModel:
    """The same world model, with the index of a state as its latent."""

    model: ExactTopoNav
    latent_dim = action_dim = 1

    def encode(self, observations: Observations) -> Tensor:
        """Map N observations to indices of states [N, 1]."""
        return self.model.index(self.model.encode(observations))[:, None]

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Follow the transitions: context [B, 1, 1], actions [B, S, H, 1] -> terminal [B, S, 1]."""
        return follow(self.model.transitions, context[:, -1, 0], actions)[..., None]


class TabularCost:
    """A terminal cost looked up by (goal, state): terminal [B, S, 1], goal [B, 1] -> costs [B, S]."""

    def __init__(self, cost: TerminalCost, latents: Tensor) -> None:
        self._cost, self._latents = cost, latents
        self._table = np.zeros((len(latents), len(latents)), np.float32)  # [goal, state]
        self._known = np.zeros(len(latents), bool)

    @torch.no_grad()
    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        goals = goal.numpy()
        for new in np.unique(goals[~self._known[goals]]):
            # One goal at a time: equal shapes give equal bits.
            self._table[new] = self._cost(self._latents[None], self._latents[None, new])[0].numpy()
            self._known[new] = True
        return torch.from_numpy(self._table.ravel().take(goals * len(self._table) + terminal[..., 0].numpy()))


def tabulate(model: ExactTopoNav, costs: Mapping[str, TerminalCost]) -> tuple[TabularModel, dict[str, TerminalCost]]:
    """Return model and costs in tabular form; a cost must score candidates independently, or be a `HybridCost`."""

    def table(cost: TerminalCost) -> TerminalCost:
        if isinstance(cost, HybridCost):
            return replace(cost, base=table(cost.base), learned=table(cost.learned))
        return TabularCost(cost, model.latents)

    return TabularModel(model), {name: table(cost) for name, cost in costs.items()}
