"""`reachcost check`: the contract of a world model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.table import Table

from reachcost.commands import console


def check(
    model: Annotated[str, tyro.conf.Positional],
    logs: Path | None = None,
    task: str | None = None,
    trust_pickle: bool = False,
) -> None:
    """Load a world model, test the contract that planning relies on, and show where it comes from.

    Args:
        model: A bundled model, a directory of `reachcost train-model`, or a checkpoint of stable-worldmodel.
        logs: Dataset the model was trained on; a public checkpoint needs it for the statistics of its actions.
        task: The world that draws frames to check with; by default the first of ours.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    import numpy as np
    import torch

    from reachcost.data.logs.hdf5 import open_logs
    from reachcost.tasks import make_task
    from reachcost.worldmodels.check import check_world_model
    from reachcost.worldmodels.loading import load_world_model

    world = make_task(task)
    opened = None if logs is None else open_logs(logs, observe=world.observe)
    loaded = load_world_model(model, logs=opened, trust_pickle=trust_pickle)
    seen = opened or world.generate_logs(episodes=1)
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
