"""Find and load world models: published ones by name, models trained here, public checkpoints, and the Hub."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from reachcost.core.devices import choose_device
from reachcost.core.files import expand_path
from reachcost.core.modules import FILES, StoredModule, stored_format
from reachcost.core.repositories import SCHEME, Hub, Repository
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, did_you_mean, require_type
from reachcost.heads.storage import FORMAT as HEAD
from reachcost.worldmodels.checkpoints import load_checkpoint
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts, ObjectArchitecture, ObjectParts
from reachcost.worldmodels.jepa import JepaWorldModel, Parts
from reachcost.worldmodels.public import PublicArchitecture, PublicParts

BUNDLED = Path(__file__).parent / "zoo"  # the model in the wheel, and the names of all published models
CHECKOUT = Path(__file__).parents[3] / "zoo"  # the other published models in a checkout of the repository
PLACE = "REACHCOST_ZOO"
"""Environment variable: a directory with further models, or `hf://user` for repositories on the Hub."""
FORMAT = "reachcost-world-model/1"
STATE = "training.pt"  # file of an unfinished training
LARGEST = 4096  # maximum of every size in a config
SIZES: dict[str, tuple[Callable[..., Any], type[Parts]]] = {
    "compact": (CompactArchitecture, CompactParts),
    "wide": (partial(CompactArchitecture, patch_width=64, blocks=3, block_width=512), CompactParts),
    "objects": (ObjectArchitecture, ObjectParts),
    "paper": (partial(PublicArchitecture, history=1), PublicParts),
}
"""Sizes that `reachcost train-model` knows: architecture and parts."""


def zoo() -> dict[str, Path | None]:
    """Return the directory of each published world model by name, None for those not on this machine.

    Further models in the directory of the environment variable `REACHCOST_ZOO` are listed, too.

    >>> zoo()["lewm-tworoom-3072"].name
    'lewm-tworoom-3072'
    """
    named = os.environ.get(PLACE, "")
    places = [CHECKOUT, *([expand_path(named)] if named and not named.startswith(SCHEME) else ()), BUNDLED]
    found = {config.parent.name: config.parent for place in places for config in place.glob("*/config.json")}
    names = (BUNDLED / "names.txt").read_text(encoding="utf-8").split()
    return {name: found.get(name) for name in sorted({*names, *found})}


def published(name: str, hub: Hub | None = None) -> Path:
    """Return the directory of a published model, downloaded if `REACHCOST_ZOO` is on the Hub."""
    if (directory := zoo()[name]) is not None:
        return directory
    place = os.environ.get(PLACE, "").rstrip("/")
    if place.startswith(SCHEME) and (repo := Repository.of(f"{place}/{name}")):
        return repo.download(FILES, hub)
    raise ReachcostError(
        f"the world model {name} is not on this machine: set {PLACE} to the directory zoo of a checkout of reachcost, "
        "or to hf://USER of the Hub"
    )


def load_world_model(
    source: str | Path,
    *,
    clamp: bool | None = None,
    device: str = "auto",
    logs: Logs | None = None,
    actions: ActionBlocks | None = None,
    trust_pickle: bool = False,
    hub: Hub | None = None,
) -> JepaWorldModel:
    """Load a frozen world model.

    Args:
        source: A name that `zoo` lists, a directory that `reachcost train-model` wrote, or a checkpoint of
            stable-worldmodel: its directory, its file or its id in the cache of that package. `hf://user/name` is a
            model of either kind on the Hugging Face Hub. Write `./name` for a directory that has a name of `zoo`.
        clamp: Clamp the actions that the predictor reads to the range of the logs. The default is True for models
            trained by reachcost and False for public checkpoints.
        device: Device to compute on; `auto` is a GPU if there is one.
        logs: Training logs of a public checkpoint, to measure the statistics of the actions.
        actions: These statistics, if they are known.
        trust_pickle: Load an old pickled checkpoint, although it can run any code.
        hub: Client of the Hub for `hf://`.

    >>> load_world_model("lewm-tworoom-3072").latent_dim
    192
    """
    require_type(source, str | Path, "source", f"name a model ({', '.join(zoo())}) or a directory")
    device, clamp_ours = choose_device(device), clamp is not False
    if source in zoo():
        return read_world_model(published(str(source), hub), clamp_ours, device, name=str(source))
    repo = Repository.of(source)
    directory = expand_path(source) if repo is None else repo.download((*FILES, "weights.pt"), hub)
    stored = stored_format(directory)
    if stored == HEAD:
        raise ReachcostError(f"{source} is a head, not a world model: load it by rc.load_head, or pass it as --head")
    if stored == FORMAT or any((directory / name).exists() for name in (STATE, "weights.safetensors")):
        model = read_world_model(directory, clamp_ours, device)
    else:
        try:
            model = load_checkpoint(
                source if repo is None else directory,
                logs=logs,
                actions=actions,
                clamp=bool(clamp),
                device=device,
                trust_pickle=trust_pickle,
            )
        except ReachcostError as error:
            if directory.exists():
                raise
            raise ReachcostError(f"{error}; among published models, {did_you_mean(str(source), zoo())}") from error
    if repo is not None:
        model.card |= {"name": repo.name, "source": str(repo)}
    return model


def read_world_model(
    directory: str | Path, clamp: bool = True, device: str = "cpu", name: str | None = None
) -> JepaWorldModel:
    """Load a model that `train_world_model` wrote, after checking its files."""
    directory = Path(directory)
    if (directory / STATE).exists() and not (directory / "config.json").exists():
        raise ReachcostError(f"the training in {directory} is not finished: run the same command again to continue it")
    stored = StoredModule(directory, "the world model", "train it again, or restore the directory from its source")
    config = stored.config(FORMAT)
    plan = config["training"].get("plan") if isinstance(config.get("training"), dict) else None
    if config.get("size") not in SIZES or not isinstance(config.get("kind"), str) or not isinstance(plan, dict):
        stored.refuse(f"config.json needs a `kind`, a `size` ({' or '.join(SIZES)}) and a `training` with its `plan`")
    new_architecture, parts_class = SIZES[config["size"]]
    try:
        actions, architecture = ActionBlocks(**config["actions"]), new_architecture(**config["architecture"])
    except (KeyError, TypeError, ValueError) as error:
        stored.refuse(f"config.json has no valid `actions` and `architecture` ({error})", error)
    for field in fields(architecture):
        value = getattr(architecture, field.name)
        wrong_type = value is not None and type(value) is not type(field.default)
        if wrong_type or (type(value) is int and not 0 < value <= LARGEST):
            stored.refuse(f"config.json has {field.name} {value!r} in its architecture")
    if actions.size != architecture.action_dim:
        stored.refuse(f"its action blocks have {actions.size} numbers, its architecture {architecture.action_dim}")
    parts = stored.fill(lambda: parts_class(architecture), config)
    card = {"name": name or f"{config['kind']}-{plan.get('seed')}", "source": str(directory), **config}
    return JepaWorldModel(parts, actions, clamp, card, device)
