"""Draw the picture of docs/toponav.md: one episode under raw latent distance and under TRM. Takes a minute.

python examples/draw_toponav.py docs/images
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from reachcost.base.parallel import one_thread
from reachcost.base.progress import Progress
from reachcost.experiments.toponav import Experiment, Settings
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.protocols import TerminalCost
from reachcost.results.figures.cost_fields import Panel, draw_cost_fields
from reachcost.results.records import exclusive, require_rows
from reachcost.tasks.toponav.task import SIZE

SEED = 3072


def draw_repaired_episode(experiment: Experiment, path: Path) -> None:
    """Draw raw and TRM side by side for the first episode that only TRM solves."""
    run = experiment.control_run(SEED)
    keys = {"cost": run.manifest["config"]["costs"], "episode": experiment.evaluation.episodes.tolist()}
    success = dict(zip(keys["cost"], require_rows(run, keys, ["success"])["success"], strict=True))
    row = int(np.argmax((success["trm"] == 1) & (success["raw"] == 0)))
    episode = experiment.evaluation.subset(slice(row, row + 1))
    every_cost, _ = experiment.costs(SEED)
    costs = {name: every_cost[name] for name in ("raw", "trm")}
    runs = experiment.control(costs, CategoricalCEM(), SEED, episode)
    panels = []
    labels = {"raw": ("raw latent distance", "squared latent difference"), "trm": ("TRM", "predicted steps")}
    for number, (name, (title, unit)) in enumerate(labels.items()):
        steps, reached = int(runs.steps[number, 0]), bool(runs.success[number, 0])
        end = (
            f"reached the goal in {steps} steps"
            if reached
            else f"still {runs.final_distance[number, 0]} steps away after {steps}"
        )
        field = cost_field(experiment, costs[name], episode.goals)
        panels.append(Panel(f"{title}: {end}", unit, field, runs.paths[number, 0, : steps + 1], reached))
    shortest = int(experiment.task.distance(episode.starts, episode.goals)[0])
    heading = (
        f"TopoNav episode {episode.episodes[0]}, shortest route {shortest} steps: "
        "same planner, same random numbers, two terminal costs"
    )
    draw_cost_fields(episode.goals[0], panels, (-0.5, SIZE - 0.5), path, heading)


@torch.no_grad()
def cost_field(experiment: Experiment, cost: TerminalCost, goals: np.ndarray) -> np.ndarray:
    """Cost of ending in every cell [29, 29] for one goal [1, 2]; NaN in walls."""
    goal = experiment.model.encode(experiment.task.observe(goals))
    field = np.full((SIZE, SIZE), np.nan)
    cells = experiment.task.cells
    field[cells[:, 1], cells[:, 0]] = cost(experiment.model.latents[None], goal)[0].numpy()
    return field


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    with exclusive(Path("results")), one_thread():
        draw_repaired_episode(Experiment(Path("results"), Settings(), Progress()), out / "toponav.png")
