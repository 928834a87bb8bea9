"""Commands around world models: logs to train on, training, checks, publishing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

import reachcost as rc
from reachcost.commands import console, console_table, options, say
from reachcost.core.machine import require_memory
from reachcost.core.progress import ConsoleProgress
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from torch import Tensor

    from reachcost.planning.planner import Round

MANY = 100_000
"""Number of episodes that fits into the memory of any machine."""


def generate_logs(
    task: Annotated[str, tyro.conf.Positional, options.shown_as("TASK")],
    out: Path,
    episodes: int = 10_000,
    seed: int = 0,
    pixels: Annotated[int, options.shown_as("INT")] = 0,
    overwrite: options.Flag = False,
) -> None:
    """Run the data policy of a task, and write the episodes to an HDF5 file in the layout of stable-worldmodel.

    Args:
        task: World: a name such as tworoom, or a custom task as module:Class or file.py:Class.
        out: HDF5 file for the logs.
        episodes: Number of episodes.
        seed: Seed of starts, goals and noise.
        pixels: Height and width of the stored frames, 8 to 224. By default only states are stored, and frames are
            rendered when they are read.
        overwrite: Replace the file if it exists.
    """
    from reachcost.core.files import require_file
    from reachcost.data.logs_files import write_logs

    options.require_least(1, episodes=episodes)
    options.require_least(0, seed=seed)
    require_file(out, overwrite)
    options.require_writable(out.parent)
    world = options.task_option(task)
    sized = options.task_option(task, pixels=pixels) if pixels else world
    if episodes > MANY:  # before hours are spent on them
        one = world.generate_logs(1, seed)
        size = sum(np.asarray(column).nbytes for column in one.columns.values())
        require_memory(size * episodes, f"--episodes {episodes}", "give fewer, and log into several files")
    logged = world.generate_logs(episodes, seed)
    progress = ConsoleProgress(console)
    progress.step("pixels")
    render = sized.render if pixels else None
    write_logs(logged, out, render=render, overwrite=overwrite, progress=progress)
    table = console_table("", "ours", "public", title=f"{out}")
    for name, (value, public) in world.describe_logs(logged).items():
        known = "–" if public is None else f"{public:,}"
        table.add_row(name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}", known)
    console.print(table)


def train_model(
    kind: Annotated[Literal["lewm", "pldm"], tyro.conf.Positional],
    logs: Path,
    out: Path,
    task: options.DefaultTask = None,
    seed: int = 3072,
    size: Literal["compact", "wide", "objects", "paper"] = "compact",
    steps: options.OptionalInt = None,
    refinement: options.OptionalInt = None,
    ahead: options.OptionalInt = None,
    worlds: options.OptionalInt = None,
    threads: int = 2,
    device: options.Device = "auto",
) -> None:
    """Train a world model on logs. It can be interrupted: the same command continues to the same result.

    Args:
        kind: Objective: prediction with SIGReg (lewm), or with variance, covariance and alignment (pldm).
        logs: Dataset (HDF5 file or Lance table) of actions with frames or states, as `reachcost logs generate` writes.
        out: Directory for weights, configuration, training curve and model card.
        seed: Seed of initial weights, windows and projections.
        size: Architecture: `compact` for two CPU cores; `wide`, larger, for logs of many worlds; `objects` for worlds
            with a few moving colours; `paper`, the public ViT-tiny at 224 px, for a GPU.
        steps: Number of updates of all parts in the first phase; by default 3,000 (compact), 6,000 (wide),
            1,500 (objects) or 50,000 (paper).
        refinement: Number of updates of the predictor in the second phase; by default 4,000 (compact), 10,000 (wide),
            6,000 (objects) or 0 (paper).
        ahead: Number of action blocks that the predictor learns to predict from its own predictions; by default 3
            (wide) or 1.
        worlds: Number of worlds in an update, for logs of several worlds (column `world_idx`); by default 16 (wide) or
            0, which mixes all worlds.
        threads: Number of CPU threads. Another number changes the rounding of results.
    """
    from reachcost.core.devices import choose_device
    from reachcost.worldmodels.objectives import TrainingPlan
    from reachcost.worldmodels.training import train_world_model

    options.require_least(0, seed=seed)
    options.require_writable(out)
    given = {"steps": steps, "refinement": refinement, "ahead": ahead, "worlds": worlds}
    counts = {name: count for name, count in given.items() if count is not None}
    device = choose_device(device)
    plan = TrainingPlan.of_size(size, kind=kind, seed=seed, threads=threads, device=device, **counts)
    world = options.task_option(task)
    opened = options.logs_option(logs, world, named=task is not None)
    model = train_world_model(opened, out, plan, ConsoleProgress(console), world.coordinates)
    table = console_table("on held-out episodes", "", title=f"{out}")
    for name, value in model.card["training"]["metrics"].items():
        table.add_row(name, f"{value:.5g}")
    console.print(table)
    say(f"{out / 'README.md'} explains these numbers ({model.card['training']['seconds']} s)")


def check(
    model: Annotated[options.ModelName, tyro.conf.Positional],
    logs: options.OptionalPath = None,
    task: options.DefaultTask = None,
    half: options.Flag = False,
    loading: options.LoadOptions = options.LOAD,
) -> None:
    """Load a world model, test the contract that planning relies on, and show where the model comes from.

    Args:
        logs: Dataset that the model was trained on. A public checkpoint needs it for the statistics of its actions.
        half: Also measure how much plans change if rollouts use half precision (`rc.worldmodels.halved`).
    """
    import torch

    from reachcost.data.actions import blocks_of
    from reachcost.worldmodels.jepa import JepaWorldModel

    loading.prepare()
    world = options.task_option(task)
    opened = None if logs is None else options.logs_option(logs, world, named=task is not None)
    loaded = loading.load(model, world, opened)
    seen = opened or world.generate_logs(episodes=1)
    blocks, rng = blocks_of(loaded), torch.Generator().manual_seed(0)
    actions = None
    if blocks is None and world.discrete_actions is not None:
        actions = torch.randint(world.discrete_actions, (2, 8, 5, 1), generator=rng)
    rc.check_world_model(loaded, seen.observations(np.array([0, seen.rows // 2])), actions)
    facts = {
        "contract": "holds: frozen, deterministic, rows and candidates do not mix, actions matter",
        "latent": f"{loaded.latent_dim} numbers",
        "action block": f"{loaded.action_dim} numbers" + (f", {blocks.length} steps" if blocks else ""),
    }
    if blocks is None and world.discrete_actions is None:
        facts["missing"] = "actions, for planning: add them by rc.with_actions(model, logs, length=...)"
    card = {"name": model}
    if isinstance(loaded, JepaWorldModel):
        card = loaded.card
        facts["latent"] += f", from frames of {loaded.parts.pixels} px"
        facts["weights"] = f"{sum(weight.numel() for weight in loaded.parts.parameters()):,}"
        facts |= {"source": card["source"], "sha256": card["sha256"]}
        metrics = card.get("training", {}).get("metrics", {})
        facts |= {name: f"{value:.5g}" for name, value in metrics.items()}
    if half:
        facts["half precision"] = _change_in_half_precision(loaded, seen)
    table = console_table(card["name"], "")
    for name, fact in facts.items():
        table.add_row(name, fact)
    console.print(table)


def _change_in_half_precision(model: rc.WorldModel, logs: rc.Logs) -> str:
    """Mean change of plans between a few logged rows."""
    from reachcost.data.models import encode_rows
    from reachcost.worldmodels.jepa import JepaWorldModel, halved

    if not isinstance(model, JepaWorldModel):
        raise ReachcostError(f"--half is for JEPA models, not for {type(model).__name__}: leave it out")
    rows = np.linspace(0, logs.rows - 1, 8).astype(np.int64)
    latents = encode_rows(model, logs.observations(rows), len(rows))
    planner = rc.CEM(iterations=3)
    shared, change = plan_change(model, halved(model), latents, latents.flip(0), planner)
    return (
        f"{100 * shared:.0f} % of the first elites are the same, plans differ by {change.mean():.2g} deviations of the "
        f"logged actions on average, by {change.max():.2g} at most"
    )


def plan_change(
    model: rc.WorldModel, other: rc.WorldModel, start: Tensor, goal: Tensor, planner: rc.CEM
) -> tuple[float, np.ndarray]:
    """Plan from starts [B, D] to goals [B, D] with both models, by the same random numbers and latent distance.

    Returns the share of the first elites that both have, and the absolute differences of the plans [B, H, A], in
    standard deviations of the logged actions.
    """
    from reachcost.core.seeding import EpisodeStreams

    elites, plans = [], []
    for one in (model, other):
        rounds: list[Round] = []
        streams = EpisodeStreams(0, "precision", range(len(goal)), 0)
        context = rc.PlanContext(one, rc.LatentMSE(), start[:, None], goal, streams, watch=rounds.append)
        plans.append(planner.plan(context).cpu().numpy())
        elites.append(rounds[0].elites.cpu().numpy())
    shared = [np.isin(mine, theirs).mean() for mine, theirs in zip(*elites, strict=True)]
    return float(np.mean(shared)), np.abs(plans[0] - plans[1])


def push(
    source: Annotated[str, tyro.conf.Positional, options.shown_as("SOURCE")],
    repo: Annotated[str, tyro.conf.Positional, options.shown_as("REPO")],
    private: options.Flag = False,
    license: options.OptionalText = None,
) -> None:
    """Publish a head or a world model with a card on the Hugging Face Hub (pip install 'reachcost[hub]').

    Args:
        source: Directory of `reachcost fit` or `reachcost train-model`, or a name that `rc.zoo()` lists.
        repo: Repository, user/name. An existing one is updated.
        private: Make a new repository visible to its owner only.
        license: License named on the card, such as mit; by default none.
    """
    from reachcost.hub import push as push_to_hub

    loading = push_to_hub(source, repo, private=private, license=license)
    say(f"published as {repo}; load it with {loading}")
