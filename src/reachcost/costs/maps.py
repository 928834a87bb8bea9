"""Maps of terminal costs over the plane of a world."""

from __future__ import annotations

import numpy as np
import torch

from reachcost.data.models import encode_rows
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task


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
