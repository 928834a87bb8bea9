"""World models on disk: weights, configuration, training curve and a model card."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from reachcost.core.atomic import write_file
from reachcost.core.modules import StoredModule, write_module
from reachcost.data.actions import ActionBlocks
from reachcost.errors import ReachcostError
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts, ObjectArchitecture, ObjectParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public import PublicArchitecture, PublicParts
from reachcost.worldmodels.training.plan import TrainingPlan

FORMAT = "reachcost-world-model/1"
LARGEST = 4096
"""Limit on every size a config may ask for."""
SIZES = {
    "compact": (CompactArchitecture, CompactParts),
    "wide": (CompactArchitecture, CompactParts),
    "objects": (ObjectArchitecture, ObjectParts),
    "paper": (PublicArchitecture, PublicParts),
}


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


def is_world_model(directory: Path) -> bool:
    """Whether a directory was written by `train_world_model`, finished or not."""
    files = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    return "weights.safetensors" in files or {name for name in files if name.endswith(".pt")} == {"training.pt"}


def read_world_model(
    directory: str | Path, clamp: bool = True, device: str = "cpu", name: str | None = None
) -> JepaWorldModel:
    """Load a model that `train_world_model` wrote, after checking its files."""
    directory = Path(directory)
    if (directory / "training.pt").exists() and not (directory / "config.json").exists():
        raise ReachcostError(f"the training in {directory} is not finished: run the same command again to continue it")
    stored = StoredModule(directory, "the world model", "train it again, or restore the directory from its source")
    config = stored.config(FORMAT)
    plan = config["training"].get("plan") if isinstance(config.get("training"), dict) else None
    if config.get("size") not in SIZES or not isinstance(config.get("kind"), str) or not isinstance(plan, dict):
        stored.refuse(f"config.json needs a `kind`, a `size` ({' or '.join(SIZES)}) and a `training` with its `plan`")
    architecture_class, parts_class = SIZES[config["size"]]
    actions = _build(stored, config, "actions", ActionBlocks)
    architecture = _build(stored, config, "architecture", architecture_class)
    for field in fields(architecture):
        value = getattr(architecture, field.name)
        wrong = value is not None and type(value) is not type(field.default)
        if wrong or (type(value) is int and not 0 < value <= LARGEST):
            stored.refuse(f"config.json has {field.name} {value!r} in its architecture")
    if actions.size != architecture.action_dim:
        stored.refuse(f"its action blocks have {actions.size} numbers, its architecture {architecture.action_dim}")
    parts = stored.fill(lambda: parts_class(architecture), config)
    card = {"name": name or f"{config['kind']}-{plan.get('seed')}", "source": str(directory), **config}
    return JepaWorldModel(parts, actions, clamp, card, device)


def _build(stored: StoredModule, config: dict[str, Any], key: str, kind: Callable[..., Any]) -> Any:
    try:
        return kind(**config[key])
    except (KeyError, TypeError, ValueError) as error:
        stored.refuse(f"config.json has no valid `{key}` ({error})", error)


def model_card(training: dict[str, Any], weights: int) -> str:
    """The README of a trained model."""
    plan, metrics = training["plan"], training["metrics"]
    units = {
        "one_step": "squared error of the latent after one action block, relative to its variance",
        "rollout": "the same after five action blocks",
        "probe_r2": "R² of a linear probe of the logged state, mean over its coordinates",
        "probe_r2_least": "that of the coordinate it reads worst",
        "probe_rmse": "RMSE of that probe over all coordinates, in their units",
        "rollout_rmse": "the same of the state read out of the latent predicted after five action blocks",
    }
    rows = "\n".join(f"| {name} | {value:.5g} | {units[name]} |" for name, value in metrics.items())
    default = asdict(TrainingPlan.of_size(plan["size"]))
    changed = [name for name, value in plan.items() if value != default[name] and name not in ("kind", "size", "seed")]
    options = "".join(f" --{name} {plan[name]}" for name in ("size", "seed", *changed))
    updates = f"{training['best_step']:,} of {plan['steps'] + plan['refinement']:,}"
    packages = ", ".join(f"{name} {version}" for name, version in training["versions"].items())
    return f"""# {plan["kind"].upper()} {plan["seed"]} ({plan["size"]})

A joint-embedding world model trained by reachcost, {weights:,} weights. Loading it runs no code: the weights are
safetensors, `config.json` is data, and both carry one checksum.

    reachcost train-model {plan["kind"]} --task TASK --logs FILE --out DIR{options}

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
    writer.writerows({key: f"{value:.6g}" for key, value in point.items()} for point in curve)
    return text.getvalue()
