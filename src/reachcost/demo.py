"""`reachcost demo`: a planner fails under latent distance and is repaired, on TwoRoom with a bundled world model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from reachcost.base.progress import Progress
from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_paper import HIGH_DISTANCE, OUTCOMES
from reachcost.experiments.tworoom_rows import Line, table_row
from reachcost.experiments.tworoom_settings import OUR_HEAD, Setting
from reachcost.experiments.tworoom_tables import provenance
from reachcost.planning.control import control
from reachcost.protocols import TerminalCost
from reachcost.results.figures.cost_fields import Panel, draw_cost_fields
from reachcost.results.records import exclusive, require_intact_runs, require_rows
from reachcost.results.tables import ResultTable
from reachcost.tasks.tworoom.layout import BORDER, CENTRE, SIZE

SEED = 3072
MODEL = f"lewm-tworoom-{SEED}"
HEADS = {"trm": OUR_HEAD, "trm-shuffled": replace(OUR_HEAD, shuffled=True)}
COSTS = ("raw", "trm", "trm-shuffled", "oracle", "random")
COMMAND = "reachcost demo"
NOTE = (
    "Closed loop on the high-distance set with the bundled lewm-tworoom-3072: only the terminal cost changes. `raw` "
    "is latent MSE; `trm` our head, trained on logged times without the episodes of the evaluation set; "
    "`trm-shuffled` its control with permuted times; `oracle` plans with the simulator and the true distance, "
    "`random` acts at random. The paper's values are means over its three world models. Brackets are Wilson "
    "intervals of 95 %. "
    f"Made by `{COMMAND}`."
)
CELL = 4
"""Pixels between the places whose cost is drawn."""


def run_demo(out: Path, progress: Progress, **smaller: int) -> tuple[ResultTable, Path | None]:
    """Train a head and its control, plan, and draw a repaired episode; returns the table and, if any, the picture."""
    experiment = Experiment(out, progress, HEADS, **smaller)
    with exclusive(out):
        require_intact_runs(out)
        lines = [Line("lewm", cost, HIGH_DISTANCE.get(("lewm", cost)), seeds=(SEED,), single=True) for cost in COSTS]
        rows = [table_row(experiment, line, OUTCOMES) for line in lines]
        table = ResultTable("demo", NOTE, OUTCOMES, rows, provenance(experiment, COMMAND))
        table.write(out)
        picture = draw_repaired_episode(experiment, out / "tworoom.png")
    return table, picture


def draw_repaired_episode(experiment: Experiment, path: Path) -> Path | None:
    """Draw raw and TRM side by side for the first episode (across the wall, if there is one) that only TRM solves."""
    task, evaluation, model = experiment.task, experiment.evaluation("high-distance"), experiment.model(MODEL)
    success = {name: _success(experiment, name) for name in ("raw", "trm")}
    across = np.asarray(task.layout.room(evaluation.starts) != task.layout.room(evaluation.goals))
    repaired = success["trm"] & ~success["raw"]
    if not repaired.any():
        return None
    row = int(np.argmax(repaired & across if (repaired & across).any() else repaired))
    episode = evaluation.subset(slice(row, row + 1))
    costs = {name: experiment.cost(MODEL, name, SEED)[0] for name in success}
    # Random streams belong to the episode, so it runs here exactly as it did among all others.
    runs = control(task, model, costs, episode, Setting(MODEL, "raw").planner, seed=SEED)
    labels = {"raw": ("raw latent distance", "squared latent difference"), "trm": ("TRM", "predicted steps")}
    panels = []
    for number, (name, (title, unit)) in enumerate(labels.items()):
        reached, steps = bool(runs.success[number, 0]), int(runs.steps[number, 0])
        end = (
            f"reached the goal in {steps} steps"
            if reached
            else f"still {runs.final_distance[number, 0]:.0f} px away after {steps} steps"
        )
        field = cost_field(experiment, costs[name], episode.goals)
        panels.append(Panel(f"{title}: {end}", unit, field, runs.paths[number, 0, : steps + 1], reached))
    heading = (
        f"TwoRoom episode {episode.episodes[0]}, way of {task.distance(episode.starts, episode.goals)[0]:.0f} px: "
        "same world model, same planner, same random numbers, two terminal costs"
    )
    draw_cost_fields(episode.goals[0], panels, (BORDER, SIZE - BORDER), path, heading)
    return path


def _success(experiment: Experiment, cost: str) -> np.ndarray:
    run = experiment.control_run(Setting(MODEL, cost))
    keys = {"cost": [cost], "episode": experiment.evaluation("high-distance").episodes.tolist()}
    return require_rows(run, keys, ["success"])["success"][0] == 1


@torch.no_grad()
def cost_field(experiment: Experiment, cost: TerminalCost, goals: np.ndarray) -> np.ndarray:
    """Cost of ending at places all over the rooms [rows, columns], for one goal [1, 2]; NaN in the wall."""
    task, model = experiment.task, experiment.model(MODEL)
    centres = np.arange(BORDER + CELL / 2, SIZE - BORDER, CELL, dtype=np.float32)
    places = np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)
    latents, goal = model.encode(task.observe(places)), model.encode(task.observe(goals))
    layout = task.layout
    inside = np.abs(places[:, layout.across] - CENTRE) <= layout.half
    solid = inside & ~np.asarray(layout.in_door(places[:, layout.along]))
    field = np.where(solid, np.nan, cost(latents[None], goal)[0].numpy())
    return field.reshape(len(centres), len(centres))
