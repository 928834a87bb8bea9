"""A world of finitely many states needs no network while planning: latents become indices, costs become tables.

`tabulate` gives the planner an equivalent model and equivalent costs, so nothing else has to know.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from reachcost.protocols import Observations, TerminalCost
from reachcost.worldmodels.toponav import ExactTopoNav, follow


class TabularModel:
    """The same world model, with the number of the state as its latent."""

    latent_dim = 1
    action_dim = 1

    def __init__(self, model: ExactTopoNav) -> None:
        self.model = model

    def encode(self, observations: Observations) -> Tensor:
        """Map N observations to state numbers [N, 1]."""
        return self.model.cell_index(self.model.encode(observations))[:, None]

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Follow the transitions: context [B, 1, 1], actions [B, S, H, 1] -> terminal [B, S, 1]."""
        return follow(self.model.task.transitions, context[:, -1, 0], actions)[..., None]


class TabularCost:
    """A terminal cost looked up by (goal, state); equal to the cost it was made from."""

    def __init__(self, cost: TerminalCost, latents: Tensor, goals: Tensor) -> None:
        known = torch.unique(goals)
        # One goal at a time: equal shapes give equal bits, whatever the other goals are.
        rows = [cost(latents[None], latents[goal][None])[0] for goal in known]
        self._table = torch.stack(rows).numpy()  # [goals, states]
        self._row = np.full(len(latents), -1)
        self._row[known.numpy()] = np.arange(len(known))

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Look up terminal [B, S, 1] against goal [B, 1] -> [B, S]."""
        row = self._row[goal.numpy()]
        return torch.from_numpy(self._table.ravel().take(row * self._table.shape[1] + terminal[..., 0].numpy()))


def tabulate(
    model: ExactTopoNav, costs: Mapping[str, TerminalCost], goals: Tensor
) -> tuple[TabularModel, dict[str, TerminalCost]]:
    """Return model and costs in their tabular form, for episodes with these goal latents [E, D].

    Costs that depend on the candidate pool (the hybrid) have no table: tabulate their parts.
    """
    goal_index = model.cell_index(goals)
    with torch.no_grad():
        tables = {name: TabularCost(cost, model.latents, goal_index) for name, cost in costs.items()}
    return TabularModel(model), dict(tables)
