"""Maps of terminal costs over worlds that are a plane."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from reachcost.data.models import encode_rows
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task


class Places:
    """Every free place of a map, encoded once for all costs and goals. The task must have `plane`."""

    @torch.no_grad()
    def __init__(self, task: Task, model: WorldModel) -> None:
        plane = task.plane()
        grid = plane.grid()
        places = grid.reshape(-1, 2)
        self._task, self._model, self._shape, self._free = task, model, grid.shape[:2], plane.free(places)
        states = plane.states(places[self._free])
        self._latents = encode_rows(model, task.observe(states), len(states))

    @torch.no_grad()
    def field(self, cost: TerminalCost, goals: np.ndarray) -> np.ndarray:
        """Cost of each cell of the map for some goals [G, ...]: [G, rows, columns]; NaN for cells that are not free."""
        goal = encode_rows(self._model, self._task.observe(goals), len(goals))
        field = np.full((len(goals), len(self._free)), np.nan)
        field[:, self._free] = cost(self._latents.expand(len(goals), -1, -1), goal).cpu().numpy()
        return field.reshape(len(goals), *self._shape)


def cost_fields(
    task: Task, model: WorldModel, costs: Mapping[str, TerminalCost], goals: np.ndarray
) -> dict[str, np.ndarray]:
    """Cost of each cell of the map for some goals [G, ...]: name to [G, rows, columns]. See `Places`.

    >>> from reachcost import LatentMSE, load_world_model, make_task
    >>> task, model = make_task("tworoom"), load_world_model("lewm-tworoom-3072")
    >>> cost_fields(task, model, {"raw": LatentMSE()}, np.float32([[40, 40]]))["raw"].shape
    (1, 49, 49)
    """
    places = Places(task, model)
    return {name: places.field(cost, goals) for name, cost in costs.items()}
