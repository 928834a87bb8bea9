"""`reachcost demo`: a planner fails under latent distance and is repaired, on one head seed of TopoNav."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from reachcost.experiments.tables import ResultTable
from reachcost.experiments.toponav import Experiment, Settings
from reachcost.experiments.toponav_tables import reproduce_toponav
from reachcost.parallel import one_thread
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.progress import Progress
from reachcost.protocols import TerminalCost
from reachcost.records import exclusive, require_rows
from reachcost.report.cost_fields import Panel, draw_cost_fields

SEED = 3072


def run_demo(out: Path, progress: Progress) -> tuple[ResultTable, Path]:
    """Reproduce TopoNav for one head seed and draw one repaired episode; returns the table and the picture."""
    settings = Settings(head_seeds=(SEED,), command="reachcost demo")
    table = reproduce_toponav(out, progress, settings)
    with exclusive(out), one_thread():
        picture = draw_repaired_episode(Experiment(out, settings, Progress()), out / "toponav.png")
    return table, picture


def draw_repaired_episode(experiment: Experiment, path: Path) -> Path:
    """Draw raw and TRM side by side for the first episode that only TRM solves."""
    run = experiment.control_run(SEED)
    keys = {"cost": run.manifest["config"]["costs"], "episode": experiment.evaluation.episodes.tolist()}
    success = dict(zip(keys["cost"], require_rows(run, keys, ["success"])["success"], strict=True))
    row = int(np.argmax((success["trm"] == 1) & (success["raw"] == 0)))
    episode = experiment.evaluation.subset(slice(row, row + 1))
    every_cost, _ = experiment.costs(SEED)
    costs = {name: every_cost[name] for name in ("raw", "trm")}
    # Random streams belong to the episode, so it runs here exactly as it did among all others.
    runs = experiment.control(costs, CategoricalCEM(), SEED, episode)
    panels = []
    labels = {"raw": ("raw latent distance", "squared latent difference"), "trm": ("TRM", "predicted steps")}
    for number, (name, (title, unit)) in enumerate(labels.items()):
        steps = int(runs.steps[number, 0])
        end = (
            f"reached the goal in {steps} steps"
            if runs.success[number, 0]
            else f"still {runs.final_distance[number, 0]} steps away after {steps}"
        )
        field = cost_field(experiment, costs[name], episode.goals)
        panels.append(Panel(f"{title}: {end}", unit, field, runs.paths[number, 0, : steps + 1]))
    shortest = int(experiment.task.distance(episode.starts, episode.goals)[0])
    heading = (
        f"TopoNav episode {episode.episodes[0]}, shortest route {shortest} steps: "
        "same planner, same random numbers, two terminal costs"
    )
    draw_cost_fields(experiment.task, episode.goals[0], panels, path, heading)
    return path


@torch.no_grad()
def cost_field(experiment: Experiment, cost: TerminalCost, goals: np.ndarray) -> np.ndarray:
    """Cost of ending in every free cell [677] for one goal [1, 2]."""
    goal = experiment.model.encode(experiment.task.observe(goals))
    return cost(experiment.model.latents[None], goal)[0].numpy()
