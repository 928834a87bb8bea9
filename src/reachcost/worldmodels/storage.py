"""World models on disk: weights, configuration, training curve and a model card."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from reachcost.atomic import write_file
from reachcost.errors import ReachcostError
from reachcost.storage import StoredModule, write_module
from reachcost.worldmodels.actions import ActionBlocks
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public import PublicArchitecture, PublicParts

FORMAT = "reachcost-world-model/1"
SIZES = {"compact": (CompactArchitecture, CompactParts), "paper": (PublicArchitecture, PublicParts)}


def write_world_model(
    directory: Path,
    parts: CompactParts | PublicParts,
    actions: ActionBlocks,
    training: dict[str, Any],
    curve: Sequence[dict[str, float]],
) -> None:
    """Write a trained model into an existing directory; `config.json` comes last, and without it nothing is loaded."""
    write_file(directory / "curve.csv", _csv(curve))
    write_file(directory / "README.md", model_card(training, sum(weight.numel() for weight in parts.parameters())))
    config = {
        "format": FORMAT,
        "kind": training["plan"]["kind"],
        "size": training["plan"]["size"],
        "architecture": asdict(parts.architecture),
        "actions": asdict(actions),
        "training": training,
    }
    write_module(directory, parts, config)


def read_world_model(directory: str | Path, clamp: bool = True) -> JepaWorldModel:
    """Load a model that `train_world_model` wrote, after checking its files."""
    directory = Path(directory)
    if (directory / "training.pt").exists() and not (directory / "config.json").exists():
        raise ReachcostError(f"the training in {directory} is not finished: run the same command again to continue it")
    stored = StoredModule(directory, "the world model", "train it again, or restore the directory from its source")
    config = stored.config(FORMAT)
    if config.get("size") not in SIZES or not all(
        isinstance(config.get(key), dict) for key in ("architecture", "actions", "training")
    ):
        stored.refuse(f"config.json needs a `size` ({' or '.join(SIZES)}), `architecture`, `actions` and `training`")
    architecture_class, parts_class = SIZES[config["size"]]
    try:
        actions = ActionBlocks(**config["actions"])
        architecture = architecture_class(**config["architecture"])
    except (TypeError, ValueError) as error:
        stored.refuse(f"config.json does not describe an architecture ({error})", error)
    for field in fields(architecture):
        value = getattr(architecture, field.name)
        if value is not None and type(value) is not type(field.default):
            stored.refuse(f"config.json has {field.name} {value!r} in its architecture")
    parts = stored.fill(lambda: parts_class(architecture), config)
    card = {"name": f"{config['kind']}-{config['training']['plan']['seed']}", **config}
    return JepaWorldModel(parts, actions, clamp, card)


def model_card(training: dict[str, Any], weights: int) -> str:
    """The README of a trained model."""
    plan, metrics = training["plan"], training["metrics"]
    units = {
        "one_step": "squared error of the latent after one action block, relative to its variance",
        "rollout": "the same after five action blocks",
        "probe_r2": "R² of a linear probe of the logged state",
        "probe_rmse": "RMSE of that probe, in units of the state",
        "rollout_rmse": "RMSE of the state read out of the latent predicted after five action blocks",
    }
    rows = "\n".join(f"| {name} | {value:.5g} | {units[name]} |" for name, value in metrics.items())
    named = ("seed", "size", "steps", "refinement", "threads", "device")
    options = " ".join(f"--{name} {plan[name]}" for name in named)
    updates = f"{training['best_step']:,} of {plan['steps'] + plan['refinement']:,}"
    packages = ", ".join(f"{name} {version}" for name, version in training["versions"].items())
    return f"""# {plan["kind"].upper()} {plan["seed"]} ({plan["size"]})

A joint-embedding world model trained by reachcost, {weights:,} weights. Loading it runs no code: the weights are
safetensors, `config.json` is data, and both carry one checksum.

    reachcost train-model {plan["kind"]} --logs FILE --out DIR {options}

| metric | value | on held-out episodes |
| --- | --- | --- |
{rows}

* Logs: {training["episodes"]:,} episodes, the last {training["held_out_episodes"]:,} of them held out;
  sha256 of their states and actions `{training["logs_sha256"]}`
* Kept: the weights of update {updates}, by held-out prediction (`rollout`)
* Time: {training["seconds"]} s; {packages}
* Not for anything but research on planning in the task it was trained on.
"""


def _csv(curve: Sequence[dict[str, float]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(curve[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: float(f"{value:.6g}") for key, value in point.items()} for point in curve)
    return text.getvalue()
