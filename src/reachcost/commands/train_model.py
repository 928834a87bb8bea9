"""`reachcost train-model`: a world model from logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich import box
from rich.table import Table

from reachcost.commands import console, require_least, require_writable
from reachcost.commands.options import logs_option, task_option


def train_model(
    kind: Annotated[Literal["lewm", "pldm"], tyro.conf.Positional],
    logs: Path,
    out: Path,
    task: str | None = None,
    seed: int = 3072,
    size: Literal["compact", "wide", "objects", "paper"] = "compact",
    steps: int | None = None,
    refinement: int | None = None,
    ahead: int | None = None,
    worlds: int | None = None,
    threads: int = 2,
    device: str = "auto",
) -> None:
    """Train a world model on logs. Interrupt and repeat at will: the same command continues to the same result.

    Args:
        kind: The objective: prediction with SIGReg (lewm), or with variance, covariance and alignment (pldm).
        logs: Dataset (HDF5 file or Lance table) of states or frames with actions; `reachcost logs generate` writes one.
        out: Directory for weights, configuration, training curve and model card.
        task: The world that draws frames of logged states, or your own, module:Class; by default the first of ours.
        seed: Of initial weights, windows and projections.
        size: `compact` for two CPU cores; `wide`, a larger one for logs of many worlds; `objects`, one with an encoder
            for worlds of few moving colours; `paper` is the public ViT-tiny at 224 px, for a GPU.
        steps: Updates of all parts together; by default 3,000 (compact), 6,000 (wide), 1,500 (objects) or
            50,000 (paper).
        refinement: Updates of the predictor alone, afterwards; by default 4,000 (compact), 10,000 (wide), 6,000
            (objects) or none (paper).
        ahead: Action blocks that the predictor alone learns to foresee from its own predictions; by default 1, or 3
            (wide).
        worlds: Worlds in an update, where the logs are of several (column `world_idx`); by default 16 (wide) or
            0, which mixes all.
        threads: CPU threads; more or fewer round differently.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
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
    table = Table(
        "on held-out episodes", "", box=box.SIMPLE_HEAD, show_edge=False, title=f"{out}", title_justify="left"
    )
    for name, value in model.card["training"]["metrics"].items():
        table.add_row(name, f"{value:.5g}")
    console.print(table)
    console.print(f"{out / 'README.md'} says what they mean ({model.card['training']['seconds']} s)", highlight=False)
