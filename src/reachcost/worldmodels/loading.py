"""`load_world_model`: one door to bundled models, models trained here, and public checkpoints."""

from __future__ import annotations

from pathlib import Path

from reachcost.devices import choose_device
from reachcost.errors import ReachcostError
from reachcost.hub import Hub, download, repository
from reachcost.logs import Logs
from reachcost.storage import FILES, stored_format
from reachcost.worldmodels.actions import ActionBlocks
from reachcost.worldmodels.checkpoints import load_checkpoint
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.storage import FORMAT, is_world_model, read_world_model

ZOO = Path(__file__).parent / "zoo"


def zoo() -> list[str]:
    """Names of the bundled world models."""
    return sorted(config.parent.name for config in ZOO.glob("*/config.json"))


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
        source: The name of a bundled model, a directory that `reachcost train-model` wrote, or a checkpoint of
            stable-worldmodel: its directory, its file or its id on the Hugging Face Hub. A bundled name goes before a
            directory of that name; write `./name` for the directory. `hf://user/name` is one on the hub, also of ours.
        clamp: Let the predictor see actions within the range of the logs only. By default our own models do and public
            checkpoints do not.
        device: Where it computes; `auto` is a GPU if there is one.
        logs: The logs a public checkpoint was trained on, for the statistics of their actions, which it lacks.
        actions: These statistics, if they are known.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
        hub: Where to look for models that are not here; by default the Hugging Face Hub.

    >>> load_world_model("lewm-tworoom-3072").latent_dim
    192
    """
    device = choose_device(device)
    if source in zoo():
        return read_world_model(ZOO / source, clamp is not False, device, name=str(source))
    if (repo := repository(source)) is not None:
        if stored_format(download(repo, FILES[:1], hub)) == FORMAT:
            model = read_world_model(download(repo, FILES, hub), clamp is not False, device, name=repo)
            model.card["source"] = source
            return model
        source = repo
    directory = Path(source).expanduser()
    if is_world_model(directory):
        return read_world_model(directory, clamp is not False, device)
    try:
        return load_checkpoint(
            source, logs=logs, actions=actions, clamp=bool(clamp), device=device, trust_pickle=trust_pickle, hub=hub
        )
    except ReachcostError as error:
        if directory.exists():
            raise
        raise ReachcostError(f"{error}; bundled models are {', '.join(zoo())}") from error
