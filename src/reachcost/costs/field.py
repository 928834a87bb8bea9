"""What terminal costs say about every place of a world that is a plane."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from reachcost.data.rollouts import encoded
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task


@torch.no_grad()
def cost_fields(
    task: Task, model: WorldModel, costs: Mapping[str, TerminalCost], goals: np.ndarray
) -> dict[str, np.ndarray]:
    """Cost of ending at each cell of the map, for some goals [G, ...]: name to [G, rows, columns].

    Places are encoded once for all costs and goals. NaN is where nobody can be. The task must offer `plane`.

    >>> from reachcost import LatentMSE, load_world_model, make_task
    >>> task, model = make_task("tworoom"), load_world_model("lewm-tworoom-3072")
    >>> cost_fields(task, model, {"raw": LatentMSE()}, np.float32([[40, 40]]))["raw"].shape
    (1, 49, 49)
    """
    plane = task.plane()
    grid = plane.grid()
    places = grid.reshape(-1, 2)
    free = plane.free(places)
    states = plane.states(places[free])
    latents, goal = (encoded(model, task.observe(some), len(some)) for some in (states, goals))
    fields = {}
    for name, cost in costs.items():
        found = cost(latents.expand(len(goals), -1, -1), goal)
        field = np.full((len(goals), len(places)), np.nan)
        field[:, free] = found.cpu().numpy()
        fields[name] = field.reshape(len(goals), *grid.shape[:2])
    return fields
