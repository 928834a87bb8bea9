"""What the repair costs inside stable-worldmodel: plans of its CEM, 300 candidates x 10 iterations, and of ours.

All of them plan for the same four episodes with the same bundled model. Run it with `make bench` on two idle cores; it
writes `results/benchmarks/stable_worldmodel.json`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import nn

from benchmarks.machine import per_second, publish
from reachcost.base.seeding import EpisodeStreams
from reachcost.costs.head import HeadCost
from reachcost.costs.latent import LatentMSE
from reachcost.data.latents import encode_logs
from reachcost.fitting.fit import fit
from reachcost.fitting.recipe import Recipe
from reachcost.fitting.temporal import TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.protocols import TerminalCost
from reachcost.swm import RepairedModel, SwmModel
from reachcost.swm.package import import_stable_worldmodel, silence
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.loading import load_world_model

EPISODES = 4


def milliseconds_per_plan(work: Callable[[], object]) -> float:
    """Of the fastest of some repeats."""
    return 1000 / per_second(work, EPISODES)


def main() -> None:
    """Measure, print and record."""
    import_stable_worldmodel()
    from stable_worldmodel.policy import PlanConfig
    from stable_worldmodel.solver import CEMSolver

    task, model, planner = TwoRoom(), load_world_model("lewm-tworoom-3072"), CEM()
    head = fit(TemporalPairs(encode_logs(model, task.generate_logs(1000), cache=False), 50_000), Recipe(epochs=2))
    goals = task.evaluation_set("high-distance").spread(EPISODES)
    start, goal = (torch.from_numpy(task.render(states))[:, None] for states in (goals.starts, goals.goals))
    info = {"pixels": start, "goal": goal, "action": torch.zeros(EPISODES, 1, 2)}
    raw = SwmModel(model)
    repaired: dict[str, nn.Module] = {
        "raw": raw,
        "replacement": RepairedModel(raw, head),
        "hybrid": RepairedModel(raw, head, weight=1.0),
    }

    def theirs(cost: Any, batch: int) -> None:
        solver = CEMSolver(cost, batch, planner.candidates, n_steps=planner.iterations, topk=planner.elites)
        space = Box(-1, 1, (EPISODES, 2), np.float32)
        plan = PlanConfig(planner.horizon, planner.executed, action_block=model.actions.length)
        with silence():
            solver.configure(action_space=space, n_envs=EPISODES, config=plan)
            solver.solve(info)

    def ours(cost: TerminalCost) -> None:
        context, target = (model.encode(task.observe(states)) for states in (goals.starts, goals.goals))
        planner.plan(model, cost, context[:, None], target, EpisodeStreams(0, "benchmark", goals.episodes, 0))

    torch.set_num_threads(1)
    rows: dict[str, dict[str, float]] = {}
    for batch in (1, EPISODES):
        times = {name: milliseconds_per_plan(partial(theirs, cost, batch)) for name, cost in repaired.items()}
        for name, milliseconds in times.items():
            ratio = round(milliseconds / times["raw"], 2)
            rows[f"its CEM, batch {batch}, {name}"] = {"milliseconds_per_plan": round(milliseconds, 1), "to_raw": ratio}
    own = {
        "raw": milliseconds_per_plan(partial(ours, LatentMSE())),
        "replacement": milliseconds_per_plan(partial(ours, HeadCost(head))),
    }
    for name, milliseconds in own.items():
        ratio = round(milliseconds / own["raw"], 2)
        rows[f"our CEM, {name}"] = {"milliseconds_per_plan": round(milliseconds, 1), "to_raw": ratio}
    for name, row in rows.items():
        print(f"{name:30}", "  ".join(f"{key} {value:,}" for key, value in row.items()))
    publish("stable_worldmodel", rows)


if __name__ == "__main__":
    main()
