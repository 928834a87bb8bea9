"""`reachcost check`: test a world model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

import reachcost as rc
from reachcost.commands import console, console_table
from reachcost.commands.options import (
    DefaultTask,
    Device,
    ModelName,
    TrustPickle,
    logs_option,
    model_option,
    task_option,
)
from reachcost.errors import ReachcostError


def check(
    model: Annotated[ModelName, tyro.conf.Positional],
    logs: Path | None = None,
    task: DefaultTask = None,
    trust_pickle: TrustPickle = False,
    device: Device = "auto",
    half: bool = False,
) -> None:
    """Load a world model, test the contract that planning relies on, and show where the model comes from.

    Args:
        logs: Dataset that the model was trained on. A public checkpoint needs it for the statistics of its actions.
        half: Also measure how much plans change if rollouts use half precision (`rc.worldmodels.halved`).
    """
    import numpy as np
    import torch

    from reachcost.core.devices import use_device
    from reachcost.data.actions import blocks_of
    from reachcost.worldmodels.jepa import JepaWorldModel

    use_device(device)
    world = task_option(task)
    opened = None if logs is None else logs_option(logs, world, named=task is not None)
    loaded = model_option(model, task=world, logs=opened, trust_pickle=trust_pickle)
    seen = opened or world.generate_logs(episodes=1)
    blocks, rng = blocks_of(loaded), torch.Generator().manual_seed(0)
    if blocks is None and world.discrete_actions is not None:
        actions = torch.randint(world.discrete_actions, (2, 8, 5, 1), generator=rng)
    else:
        actions = torch.randn(2, 8, 5, loaded.action_dim, generator=rng)
    rc.check_world_model(loaded, seen.observations(np.array([0, seen.rows // 2])), actions)
    facts = {
        "contract": "holds: frozen, deterministic, rows and candidates do not mix, actions matter",
        "latent": f"{loaded.latent_dim} numbers",
        "action block": f"{loaded.action_dim} numbers, {blocks.length if blocks else 1} steps",
    }
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
    import numpy as np

    from reachcost.data.models import encode_rows
    from reachcost.planning.measurements import plan_change
    from reachcost.worldmodels.jepa import JepaWorldModel, halved

    if not isinstance(model, JepaWorldModel):
        raise ReachcostError(f"--half is for JEPA models, not for {type(model).__name__}: leave it out")
    rows = np.linspace(0, logs.rows - 1, 8).astype(np.int64)
    latents = encode_rows(model, logs.observations(rows), len(rows))
    return str(plan_change(model, halved(model), rc.LatentMSE(), latents, latents.flip(0), rc.CEM(iterations=3)))
