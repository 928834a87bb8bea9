"""Logs and world models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich import box
from rich.table import Table

from reachcost.commands import console


def logs(
    action: Annotated[Literal["generate"], tyro.conf.Positional],
    task: Annotated[Literal["tworoom"], tyro.conf.Positional],
    out: Path,
    episodes: int = 10_000,
    seed: int = 0,
    pixels: int = 0,
    overwrite: bool = False,
) -> None:
    """Log the public data policy of a task into an HDF5 file in the layout of stable-worldmodel.

    Args:
        action: What to do with logs.
        task: The task whose policy is logged.
        out: The HDF5 file to write.
        episodes: How many episodes to log.
        seed: Of starts, goals and noise.
        pixels: Side of the frames to store, 8 to 224; 0 stores states alone, and frames are drawn when read.
        overwrite: Replace the file if it exists.
    """
    from reachcost.base.progress import ConsoleProgress
    from reachcost.data.logs.hdf5 import write_logs
    from reachcost.tasks import make_task
    from reachcost.tasks.tworoom.statistics import PUBLIC_CACHE, log_statistics

    world = make_task(task)
    logged = world.generate_logs(episodes, seed)
    progress = ConsoleProgress(console)
    progress.step("pixels")
    render = (lambda states: world.render(states, pixels)) if pixels else None
    write_logs(logged, out, render=render, overwrite=overwrite, progress=progress)
    table = Table(
        "", "ours", "public cache", box=box.SIMPLE_HEAD, show_edge=False, title=f"{out}", title_justify="left"
    )
    for name, value in log_statistics(logged).items():
        table.add_row(name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}", f"{PUBLIC_CACHE[name]:,}")
    console.print(table)


def train_model(
    kind: Annotated[Literal["lewm", "pldm"], tyro.conf.Positional],
    logs: Path,
    out: Path,
    seed: int = 3072,
    size: Literal["compact", "paper"] = "compact",
    steps: int | None = None,
    refinement: int | None = None,
    threads: int = 2,
    device: str = "cpu",
) -> None:
    """Train a world model on logs. Interrupt and repeat at will: the same command continues to the same result.

    Args:
        kind: The objective: prediction with SIGReg (lewm), or with variance, covariance and alignment (pldm).
        logs: Dataset (HDF5 file or Lance table) of states or frames with actions; `reachcost logs generate` writes one.
        out: Directory for weights, configuration, training curve and model card.
        seed: Of initial weights, windows and projections.
        size: `compact` for two CPU cores; `paper` is the public ViT-tiny at 224 px, for a GPU.
        steps: Updates of all parts together; by default 3,000 (compact) or 50,000 (paper).
        refinement: Updates of the predictor alone, afterwards; by default 4,000 (compact) or none (paper).
        threads: CPU threads; more or fewer round differently.
        device: Where to train: cpu or cuda.
    """
    from reachcost.base.progress import ConsoleProgress
    from reachcost.data.logs.hdf5 import open_logs
    from reachcost.tasks import make_task
    from reachcost.worldmodels.training.train import TrainingPlan, train_world_model

    sized = TrainingPlan.paper() if size == "paper" else TrainingPlan()
    counts = {name: count for name, count in (("steps", steps), ("refinement", refinement)) if count is not None}
    plan = replace(sized, kind=kind, seed=seed, threads=threads, device=device, **counts)
    opened = open_logs(logs, observe=make_task("tworoom").observe)
    model = train_world_model(opened, out, plan, ConsoleProgress(console))
    table = Table(
        "on held-out episodes", "", box=box.SIMPLE_HEAD, show_edge=False, title=f"{out}", title_justify="left"
    )
    for name, value in model.card["training"]["metrics"].items():
        table.add_row(name, f"{value:.5g}")
    console.print(table)
    console.print(f"{out / 'README.md'} says what they mean ({model.card['training']['seconds']} s)", highlight=False)


def check(model: Annotated[str, tyro.conf.Positional], logs: Path | None = None, trust_pickle: bool = False) -> None:
    """Load a world model, test the contract that planning relies on, and show where it comes from.

    Args:
        model: A bundled model, a directory of `reachcost train-model`, or a checkpoint of stable-worldmodel.
        logs: Dataset the model was trained on; a public checkpoint needs it for the statistics of its actions.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    import numpy as np
    import torch

    from reachcost.data.logs.hdf5 import open_logs
    from reachcost.tasks import make_task
    from reachcost.worldmodels.check import check_world_model
    from reachcost.worldmodels.loading import load_world_model

    task = make_task("tworoom")
    opened = None if logs is None else open_logs(logs, observe=task.observe)
    loaded = load_world_model(model, logs=opened, trust_pickle=trust_pickle)
    seen = opened or task.generate_logs(episodes=1)
    actions = torch.randn(2, 8, 5, loaded.action_dim, generator=torch.Generator().manual_seed(0))
    check_world_model(loaded, seen.observations(np.array([0, seen.rows // 2])), actions)
    facts = {
        "contract": "holds: frozen, deterministic, rows and candidates do not mix, actions matter",
        "latent": f"{loaded.latent_dim} numbers, from frames of {loaded.parts.pixels} px",
        "action block": f"{loaded.action_dim} numbers, {loaded.actions.length} steps",
        "weights": f"{sum(weight.numel() for weight in loaded.parts.parameters()):,}",
        "source": loaded.card["source"],
        "sha256": loaded.card["sha256"],
    }
    training = loaded.card.get("training", {})
    facts |= {name: f"{value:.5g}" for name, value in training.get("metrics", {}).items()}
    table = Table(loaded.card["name"], "", box=box.SIMPLE_HEAD, show_edge=False)
    for name, fact in facts.items():
        table.add_row(name, fact)
    console.print(table)


def push(
    source: Annotated[str, tyro.conf.Positional],
    repo: Annotated[str, tyro.conf.Positional],
    private: bool = False,
    license: str | None = None,
) -> None:
    """Publish a head or a world model on the Hugging Face Hub, with a card (pip install 'reachcost[hub]').

    Args:
        source: What `reachcost fit` or `reachcost train-model` wrote, or the name of a bundled model.
        repo: user/name; a second time updates it.
        private: Make a new repository visible to its owner only.
        license: What the card says of it, such as mit; by default nothing.
    """
    from reachcost.hub.sharing import push as push_to_hub

    loading = push_to_hub(source, repo, private=private, license=license)
    console.print(f"published as {repo}; load it with {loading}", highlight=False, soft_wrap=True)
