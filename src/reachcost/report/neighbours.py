"""Which logged states does a cost take for near? For worlds that are no plane, and for logs alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from reachcost.costs.checks import score
from reachcost.costs.latent import true_distance
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.fitting.logged_audit import logged_pools
from reachcost.protocols import TerminalCost
from reachcost.report.frames import drawn, pixels_of, strip
from reachcost.report.scene import Neighbourhood, Neighbours, Strip
from reachcost.tasks.contract import Task

GOALS, NEAREST, CANDIDATES, EPISODES = 3, 6, 200, 400
"""Goals that are shown, states for each, states that are ranked, and logged episodes that these are of."""
SIDE = 96


@torch.no_grad()
def neighbourhoods(
    latents: Latents, costs: Mapping[str, TerminalCost], task: Task | None = None
) -> tuple[Neighbourhood, ...]:
    """For some logged goals, the states nearest to them under each cost, among states that later came by.

    How far these really are is the oracle distance where there is one, else the steps of the fastest logged way.
    """
    logs = latents.logs
    pools = logged_pools(latents, np.arange(min(EPISODES, len(logs))), GOALS, CANDIDATES)
    truth, unit = pools.fastest.astype(float), "logged steps"
    if task is not None and task.offers("distance") and "state" in logs.columns:
        states, ends = (np.asarray(logs.columns["state"])[rows] for rows in (pools.candidates, pools.goals))
        ends = np.repeat(ends, CANDIDATES, axis=0)
        truth = np.asarray(task.distance(states.reshape(ends.shape), ends), float).reshape(pools.candidates.shape)
        unit = true_distance(task)
    candidates, goals = (latents.values[torch.from_numpy(rows)] for rows in (pools.candidates, pools.goals))
    order = {
        name: score(name, cost, candidates, goals, pools.goals).argsort(dim=1, stable=True)[:, :NEAREST].numpy()
        for name, cost in costs.items()
    }
    found = []
    for number, goal in enumerate(pools.goals):
        nearest = [
            Neighbours(
                name, _seen(latents, pools.candidates[number][rows[number]], task), _told(truth[number][rows[number]])
            )
            for name, rows in order.items()
        ]
        found.append(Neighbourhood(_seen(latents, np.array([goal]), task)[0], unit, CANDIDATES, tuple(nearest)))
    return tuple(found)


def _told(distances: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(f"{distance:.3g}") if np.isfinite(distance) else None for distance in distances)


def _seen(latents: Latents, rows: np.ndarray, task: Task | None) -> tuple[Strip, ...]:
    """Frames of log rows [N], each by itself."""
    seen = pixels_of(latents.logs.observations(rows))
    if seen is None and task is not None and "state" in latents.logs.columns:
        seen = drawn(task, np.asarray(latents.logs.columns["state"])[rows])
    if seen is None:
        raise ReachcostError("the logs hold no frames, and no task draws them: log `pixels`, or name the task")
    return tuple(strip(frame[None], SIDE) for frame in seen)
