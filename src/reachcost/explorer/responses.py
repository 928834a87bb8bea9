"""Answers to the page: how an episode ended, and every iteration of every plan, as the simulator executes it."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

import numpy as np

from reachcost.costs.oracle import NO_PATH
from reachcost.data.actions import ActionBlocks
from reachcost.planning.control import ControlRuns
from reachcost.planning.planner import Round, SamplingPlanner
from reachcost.tasks.compatibility import stepped
from reachcost.tasks.contract import Plane, Task

LARGEST = 65_535
"""Largest coordinate of a packed place."""


def packed(array: np.ndarray) -> dict[str, Any]:
    """An array of float32, uint16 or uint8 as JSON values, row by row in base64.

    >>> packed(np.uint8([[1, 2]]))
    {'kind': 'uint8', 'shape': [1, 2], 'data': 'AQI='}
    """
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"kind": str(array.dtype), "shape": list(array.shape), "data": base64.b64encode(data.data).decode()}


def packed_places(plane: Plane, places: np.ndarray) -> dict[str, Any]:
    """Places [..., 2] of a plane, uint16: 0 is the low corner, 65,535 the high one."""
    low, high = np.array(plane.low, float), np.array(plane.high, float)
    share = np.clip((places - low) / (high - low), 0, 1)
    return packed(np.rint(LARGEST * share).astype(np.uint16))


def packed_costs(costs: np.ndarray) -> dict[str, Any]:
    """Costs, float32. Places that cannot reach the goal get the largest of the other costs."""
    finite = costs[costs < NO_PATH]
    return packed((np.minimum(costs, finite.max()) if finite.size else costs).astype(np.float32))


def handles_of(world: Task) -> list[dict[str, Any]]:
    """The handles of a world."""
    return [asdict(handle) for handle in world.handles()] if world.offers("handles") else []


def outcome_of(world: Task, runs: ControlRuns) -> dict[str, Any]:
    """How the only episode of the runs ended."""
    steps, distance = int(runs.steps[0, 0]), float(runs.final_distance[0, 0])
    return {
        "path": packed_places(world.plane(), world.plane().places(runs.paths[0, 0, : steps + 1])),
        "reached": bool(runs.success[0, 0]),
        "steps": steps,
        "distance": distance if np.isfinite(distance) else None,
        "category": str(runs.category[0, 0]).replace("_", " "),
    }


def rounds_of(
    world: Task, blocks: ActionBlocks | None, runs: ControlRuns, rounds: list[Round], planner: SamplingPlanner
) -> dict[str, Any]:
    """Every iteration of P plans of I iterations with S candidates of T actions, executed by the simulator.

    Returns:
        `ends` [P, I, S, 2] and `costs` [P, I, S] of candidates, indices of the `elites` [P, I, K] and their paths
        `ways` [P, I, K, T + 1, 2], the path of the plan so far, `chosen` [P, I, T + 1, 2], the number of `plans`, and
        the number of actions of each that are `executed`.
    """
    executed = planner.executed * (1 if blocks is None else blocks.length)
    plans = -(-int(runs.steps[0, 0]) // executed)  # a world may continue after the goal; the page does not
    iterations = planner.iterations
    if not plans:
        return {"plans": plans, "executed": executed}
    seen = zip(*rounds[: plans * iterations], strict=True)
    pools, costs, elites, chosen = (np.stack([part[0].cpu().numpy() for part in parts]) for parts in seen)
    starts = np.repeat(runs.paths[0, 0, : plans * executed : executed], iterations, axis=0)
    candidates = np.concatenate([pools, chosen[:, None].astype(pools.dtype)], axis=1)
    actions = candidates.astype(np.int64) if blocks is None else blocks.unroll(candidates)
    states = simulated(world, np.repeat(starts, actions.shape[1], axis=0), actions.reshape(-1, *actions.shape[2:]))
    plane = world.plane()
    places = plane.places(states.reshape(-1, *states.shape[2:])).reshape(*actions.shape[:2], -1, 2)
    ends, best = places[:, :-1, -1], places[np.arange(len(places))[:, None], elites]
    return {
        "plans": plans,
        "executed": executed,
        "ends": packed_places(plane, ends.reshape(plans, iterations, *ends.shape[1:])),
        "costs": packed_costs(costs.reshape(plans, iterations, -1)),
        "elites": packed(elites.reshape(plans, iterations, -1).astype(np.uint16)),
        "ways": packed_places(plane, best.reshape(plans, iterations, *best.shape[1:])),
        "chosen": packed_places(plane, places[:, -1].reshape(plans, iterations, -1, 2)),
    }


def simulated(world: Task, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Paths [N, T + 1, ...] of states [N, ...] under actions [N, T, a]."""
    path = [states]
    for step in range(actions.shape[1]):
        path.append(stepped(world, path[-1], actions[:, step]))
    return np.stack(path, axis=1)
