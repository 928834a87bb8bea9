"""What a page is told of an episode: how it came out, and every round of every plan of it, as the simulator has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from reachcost.data.actions import ActionBlocks
from reachcost.explorer.arrays import packed, packed_costs, packed_places
from reachcost.planning.control import ControlRuns
from reachcost.planning.planner import Round, SamplingPlanner
from reachcost.tasks.compatibility import stepped
from reachcost.tasks.contract import Task


def handles_of(world: Task) -> list[dict[str, Any]]:
    """The handles of a world, for a page."""
    return [asdict(handle) for handle in world.handles()] if world.offers("handles") else []


def outcome_of(world: Task, runs: ControlRuns) -> dict[str, Any]:
    """How the one episode of some runs came out."""
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
    """Every round of P plans of I rounds: where the simulator takes each of S candidates.

    Returns:
        `ends` [P, I, S, 2] and `costs` [P, I, S] of candidates; which of them are `elites` [P, I, K], and the `ways`
        [P, I, K, T + 1, 2] of these; the way of what would be executed then, `chosen` [P, I, T + 1, 2]; the number of
        `plans`, and how many actions of each are `executed`.
    """
    executed = planner.executed * (1 if blocks is None else blocks.length)
    plans = -(-int(runs.steps[0, 0]) // executed)  # a world may go on when the goal is reached; a page does not
    iterations = planner.iterations
    if not plans:
        return {"plans": plans, "executed": executed}
    seen = zip(*rounds[: plans * iterations], strict=True)
    pools, costs, elites, chosen = (np.stack([part[0].cpu().numpy() for part in parts]) for parts in seen)
    starts = np.repeat(runs.paths[0, 0, : plans * executed : executed], iterations, axis=0)
    candidates = np.concatenate([pools, chosen[:, None].astype(pools.dtype)], axis=1)
    actions = candidates.astype(np.int64) if blocks is None else blocks.unroll(candidates)
    ways = followed(world, np.repeat(starts, actions.shape[1], axis=0), actions.reshape(-1, *actions.shape[2:]))
    plane = world.plane()
    places = plane.places(ways.reshape(-1, *ways.shape[2:])).reshape(*actions.shape[:2], -1, 2)
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


def followed(world: Task, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Where actions [N, T, a] lead from states [N, ...], step by step: [N, T + 1, ...]."""
    ways = [states]
    for step in range(actions.shape[1]):
        ways.append(stepped(world, ways[-1], actions[:, step]))
    return np.stack(ways, axis=1)
