"""Costs of all states of a world: maps over a plane, and look-up tables over finitely many states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from reachcost.costs.latent import HybridCost
from reachcost.data.models import encode_rows
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations, TerminalCost, WorldModel
from reachcost.tasks.contract import Task
from reachcost.tasks.exact import FiniteModel, follow


class CostMap:
    """Maps of terminal costs; every free cell is encoded once for all costs and goals. The task must have `plane`.

    >>> from reachcost import LatentMSE, load_world_model, make_task
    >>> cells = CostMap(make_task("tworoom"), load_world_model("lewm-tworoom-3072"))
    >>> cells.field(LatentMSE(), np.float32([[40, 40]])).shape
    (1, 49, 49)
    """

    @torch.no_grad()
    def __init__(self, task: Task, model: WorldModel) -> None:
        plane = task.plane()
        grid = plane.grid()
        cells = grid.reshape(-1, 2)
        self._task, self._model, self._shape, self._free = task, model, grid.shape[:2], plane.free(cells)
        states = plane.states(cells[self._free])
        self._latents = encode_rows(model, task.observe(states), len(states))

    @torch.no_grad()
    def field(self, cost: TerminalCost, goals: np.ndarray) -> np.ndarray:
        """Cost of each cell for goals [G, ...]: [G, rows, columns]; NaN for cells that are not free."""
        goal = encode_rows(self._model, self._task.observe(goals), len(goals))
        field = np.full((len(goals), len(self._free)), np.nan)
        field[:, self._free] = cost(self._latents.expand(len(goals), -1, -1), goal).cpu().numpy()
        return field.reshape(len(goals), *self._shape)


@dataclass(frozen=True)
class TabularModel:
    """The same world model, with the index of a state as its latent."""

    model: FiniteModel
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


def tabulate(model: FiniteModel, costs: Mapping[str, TerminalCost]) -> tuple[TabularModel, dict[str, TerminalCost]]:
    """Return model and costs in tabular form; a cost must score candidates independently, or be a `HybridCost`."""
    if not isinstance(model, FiniteModel):
        raise ReachcostError(f"{type(model).__name__} lacks `transitions` or `latents`: give a finite world model")

    def table(cost: TerminalCost) -> TerminalCost:
        if isinstance(cost, HybridCost):
            return replace(cost, base=table(cost.base), learned=table(cost.learned))
        return TabularCost(cost, model.latents)

    return TabularModel(model), {name: table(cost) for name, cost in costs.items()}
