"""`reachcost train-model`: a world model from logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from reachcost.commands import console, console_table, require_least, require_writable, say
from reachcost.commands.options import DefaultTask, Device, logs_option, task_option


def train_model(
    kind: Annotated[Literal["lewm", "pldm"], tyro.conf.Positional],
    logs: Path,
    out: Path,
    task: DefaultTask = None,
    seed: int = 3072,
    size: Literal["compact", "wide", "objects", "paper"] = "compact",
    steps: int | None = None,
    refinement: int | None = None,
    ahead: int | None = None,
    worlds: int | None = None,
    threads: int = 2,
    device: Device = "auto",
) -> None:
    """Train a world model on logs. It can be interrupted: the same command continues to the same result.

    Args:
        kind: Objective: prediction with SIGReg (lewm), or with variance, covariance and alignment (pldm).
        logs: Dataset (HDF5 file or Lance table) of actions with frames or states, as `reachcost logs generate` writes.
        out: Directory for weights, configuration, training curve and model card.
        seed: Seed of initial weights, windows and projections.
        size: Architecture: `compact` for two CPU cores; `wide`, larger, for logs of many worlds; `objects` for worlds
            with a few moving colours; `paper`, the public ViT-tiny at 224 px, for a GPU.
        steps: Number of updates of all parts; by default 3,000 (compact), 6,000 (wide), 1,500 (objects) or
            50,000 (paper).
        refinement: Number of later updates of the predictor; by default 4,000 (compact), 10,000 (wide), 6,000
            (objects) or 0 (paper).
        ahead: Number of action blocks that the predictor learns to predict from its own predictions; by default 3
            (wide) or 1.
        worlds: Number of worlds in an update, for logs of several (column `world_idx`); by default 16 (wide) or 0,
            which mixes all worlds.
        threads: Number of CPU threads. Another number rounds differently.
    """
    from reachcost.core.devices import choose_device
    from reachcost.core.progress import ConsoleProgress
    from reachcost.worldmodels.objectives import TrainingPlan
    from reachcost.worldmodels.training import train_world_model

    require_least(0, seed=seed)
    require_writable(out)
    given = {"steps": steps, "refinement": refinement, "ahead": ahead, "worlds": worlds}
    counts = {name: count for name, count in given.items() if count is not None}
    plan = replace(
        TrainingPlan.of_size(size), kind=kind, seed=seed, threads=threads, device=choose_device(device), **counts
    )
    world = task_option(task)
    opened = logs_option(logs, world, named=task is not None)
    model = train_world_model(opened, out, plan, ConsoleProgress(console), world.coordinates)
    table = console_table("on held-out episodes", "", title=f"{out}")
    for name, value in model.card["training"]["metrics"].items():
        table.add_row(name, f"{value:.5g}")
    console.print(table)
    say(f"{out / 'README.md'} explains these numbers ({model.card['training']['seconds']} s)")
