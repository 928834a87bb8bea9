"""Oracle costs: they read the true state, so they are ceilings for diagnosis and never a repair."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reachcost.worldmodels.toponav import ExactTopoNav


@dataclass(frozen=True)
class OracleGeodesic:
    """Exact graph distance from the cell behind the terminal latent to the cell behind the goal latent."""

    model: ExactTopoNav

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        distances = torch.from_numpy(self.model.task.distances)
        ends, goals = self.model.cell_index(terminal), self.model.cell_index(goal)
        return distances[ends, goals[:, None]].float()
