"""The page of the explorer: settings, two maps side by side, and the iterations of the planner."""

from __future__ import annotations

import numpy as np

from reachcost.costs.latent import unit_of
from reachcost.explorer.engine import Engine, handles_of
from reachcost.explorer.requests import CANDIDATES, ITERATIONS, SEEDS
from reachcost.report.page import render
from reachcost.tasks.contract import Task

EPISODES = 200  # maximum number of episodes that the first one is chosen from
DETOUR = 0.8  # quantile of the detour of the first episode


def explorer_page(engine: Engine) -> str:
    """The page of an engine."""
    task = engine.task
    start, goal = first_places(task)
    plane = task.plane()
    data = {
        "plane": {"low": plane.low, "high": plane.high, "cell": plane.cell},
        "handles": handles_of(task),
        "units": {name: unit_of(name, engine.cost(name), task) for name in engine.costs},
        "distance_unit": task.distance_unit,
        "start": start,
        "goal": goal,
    }
    return render(
        "explorer/explore.html.j2",
        f"{task.name} - reachcost explore",
        data=data,
        scripts=["explorer/explore.js"],
        styles=["explorer/explore.css"],
        requests=True,
        engine=engine,
        handles=task.handles() if task.offers("handles") else (),
        numbers={
            "candidates": (engine.candidates, *CANDIDATES),
            "iterations": (engine.iterations, *ITERATIONS),
            "seed": (0, *SEEDS),
        },
        maps={"left": engine.costs[0], "right": engine.costs[min(1, len(engine.costs) - 1)]},
    )


def first_places(task: Task) -> tuple[list[float], list[float]]:
    """Start and goal that the page opens with, (x, y) each: a longer detour than in most episodes."""
    plane = task.plane()
    if task.sets:
        found = task.evaluation_set(task.sets[0])
        starts, goals = found.starts[:EPISODES], found.goals[:EPISODES]
    else:
        cells = plane.grid().reshape(-1, 2)
        starts, goals = np.split(plane.states(cells[plane.free(cells)][[0, -1]]), 2)
    here, there = (np.asarray(plane.places(states), float) for states in (starts, goals))
    straight = np.maximum(np.linalg.norm(there - here, axis=1), plane.cell)
    distance = task.distance(starts, goals) if task.offers("distance") else straight
    detours = np.argsort(np.where(np.isfinite(distance), distance, 0) / straight, kind="stable")
    chosen = detours[int(DETOUR * len(detours))]
    return here[chosen].tolist(), there[chosen].tolist()
