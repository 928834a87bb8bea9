"""`reachcost check`: the contract of a world model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich import box
from rich.table import Table

from reachcost.commands import console
from reachcost.commands.options import logs_option, model_option, task_option
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.data.logs import Logs
    from reachcost.protocols import WorldModel


def check(
    model: Annotated[str, tyro.conf.Positional],
    logs: Path | None = None,
    task: str | None = None,
    trust_pickle: bool = False,
    device: str = "auto",
    half: bool = False,
) -> None:
    """Load a world model, test the contract that planning relies on, and show where it comes from.

    Args:
        model: A name that `rc.zoo()` lists, a directory of `reachcost train-model`, a checkpoint of stable-worldmodel, hf://user/name,
            or your own, as module:factory or file.py:factory.
        logs: Dataset the model was trained on; a public checkpoint needs it for the statistics of its actions.
        task: The world that draws frames to check with, or your own, module:Class; by default the first of ours.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
        half: Say how much plans change if rollouts compute in half precision (rc.worldmodels.halved in Python).
    """
    import numpy as np
    import torch

    from reachcost.core.devices import use_device
    from reachcost.data.actions import blocks_of
    from reachcost.worldmodels.check import check_world_model
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
    check_world_model(loaded, seen.observations(np.array([0, seen.rows // 2])), actions)
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
        training = card.get("training", {})
        facts |= {name: f"{value:.5g}" for name, value in training.get("metrics", {}).items()}
    if half:
        facts["half precision"] = _half(loaded, seen)
    table = Table(card["name"], "", box=box.SIMPLE_HEAD, show_edge=False)
    for name, fact in facts.items():
        table.add_row(name, fact)
    console.print(table)


def _half(model: WorldModel, logs: Logs) -> str:
    """How much plans between logged rows change, on average over a few."""
    import numpy as np

    from reachcost.costs.latent import LatentMSE
    from reachcost.data.models import encode_rows
    from reachcost.planning.cem import CEM
    from reachcost.planning.measurements import plan_change
    from reachcost.worldmodels.jepa import JepaWorldModel, halved

    if not isinstance(model, JepaWorldModel):
        raise ReachcostError(f"--half is for JEPA models, not for {type(model).__name__}: leave it out")
    rows = np.linspace(0, logs.rows - 1, 8).astype(np.int64)
    latents = encode_rows(model, logs.observations(rows), len(rows))
    return str(plan_change(model, halved(model), LatentMSE(), latents, latents.flip(0), CEM(iterations=3)))
