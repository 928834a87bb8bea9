"""`load_world_model`: one function for published models by name, models trained here, and public checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

from reachcost.core.devices import choose_device
from reachcost.core.files import expand_path
from reachcost.core.hub import SCHEME, Hub, Repository
from reachcost.core.modules import FILES, stored_format
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.storage import FORMAT as HEAD
from reachcost.worldmodels.checkpoints import load_checkpoint
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.storage import FORMAT, is_world_model, read_world_model

BUNDLED = Path(__file__).parent / "zoo"
"""The model that every installation has."""
CHECKOUT = Path(__file__).parents[3] / "zoo"
"""The others, in a checkout of the repository."""
PLACE = "REACHCOST_ZOO"
"""Environment variable: another directory with the others, or `hf://user` where they are repositories on the Hub."""
NAMES = BUNDLED / "names.txt"
"""The names of all published models."""


def zoo() -> dict[str, Path | None]:
    """Names of the published world models, with the directory of each; None if it is not on this machine.

    Further models in the directory that the environment variable `REACHCOST_ZOO` names are listed, too.

    >>> zoo()["lewm-tworoom-3072"].name
    'lewm-tworoom-3072'
    """
    named = os.environ.get(PLACE, "")
    places = [CHECKOUT, *([expand_path(named)] if named and not named.startswith(SCHEME) else ()), BUNDLED]
    found = {config.parent.name: config.parent for place in places for config in place.glob("*/config.json")}
    return {name: found.get(name) for name in sorted({*NAMES.read_text(encoding="utf-8").split(), *found})}


def published(name: str, hub: Hub | None = None) -> Path:
    """The directory of a model of the zoo, downloaded if `REACHCOST_ZOO` is on the Hub."""
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
            stable-worldmodel: its directory, its file or its id in the cache of that package. A name of `zoo` goes
            before a directory of that name; write `./name` for the directory. `hf://user/name` is one on the Hugging
            Face Hub, also of ours; nothing else is looked for there.
        clamp: Let the predictor see actions within the range of the logs only. By default our own models do and public
            checkpoints do not.
        device: Where it computes; `auto` is a GPU if there is one.
        logs: The logs a public checkpoint was trained on, for the statistics of their actions, which it lacks.
        actions: These statistics, if they are known.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
        hub: Where `hf://` leads, in `source` or in the environment variable `REACHCOST_ZOO`; by default to the Hugging
            Face Hub.

    >>> load_world_model("lewm-tworoom-3072").latent_dim
    192
    """
    require_type(source, str | Path, "source", f"name a model ({', '.join(zoo())}) or a directory")
    device = choose_device(device)
    if source in zoo():
        return read_world_model(published(str(source), hub), clamp is not False, device, name=str(source))
    if (repo := Repository.of(source)) is not None:
        return _from_hub(repo, clamp, device, logs, actions, hub)
    directory = expand_path(source)
    _require_no_head(directory, stored_format(directory))
    if is_world_model(directory):
        return read_world_model(directory, clamp is not False, device)
    try:
        return load_checkpoint(
            source, logs=logs, actions=actions, clamp=bool(clamp), device=device, trust_pickle=trust_pickle
        )
    except ReachcostError as error:
        if directory.exists():
            raise
        raise ReachcostError(f"{error}; models with a name are {', '.join(zoo())}") from error


def _from_hub(
    repo: Repository, clamp: bool | None, device: str, logs: Logs | None, actions: ActionBlocks | None, hub: Hub | None
) -> JepaWorldModel:
    """A model of ours or a public checkpoint, whatever the repository holds."""
    config = FILES[:1]
    kind = stored_format(repo.download(config, hub))
    _require_no_head(repo, kind)
    if kind == FORMAT:
        model = read_world_model(repo.download(FILES, hub), clamp is not False, device)
    else:
        directory = repo.download((*config, "weights.pt"), hub)
        model = load_checkpoint(directory, logs=logs, actions=actions, clamp=bool(clamp), device=device)
    model.card |= {"name": repo.name, "source": str(repo)}
    return model


def _require_no_head(where: object, kind: str | None) -> None:
    if kind == HEAD:
        raise ReachcostError(f"{where} is a head, not a world model: rc.load_head loads it, --head takes it")
