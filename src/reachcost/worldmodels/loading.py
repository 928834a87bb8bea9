"""`load_world_model`: one door to bundled models, models trained here, and public checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

from reachcost.errors import ReachcostError
from reachcost.logs import Logs
from reachcost.worldmodels.checkpoints import load_checkpoint
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.storage import FORMAT, read_world_model

ZOO = Path(__file__).parent / "zoo"


def zoo() -> list[str]:
    """Names of the bundled world models."""
    return sorted(config.parent.name for config in ZOO.glob("*/config.json"))


def load_world_model(
    source: str | Path, *, clamp: bool | None = None, logs: Logs | None = None, trust_pickle: bool = False
) -> JepaWorldModel:
    """Load a frozen world model.

    Args:
        source: The name of a bundled model, a directory that `reachcost train-model` wrote, or a checkpoint of
            stable-worldmodel: its directory, its file or its id on the Hugging Face Hub.
        clamp: Let the predictor see actions within the range of the logs only. By default our own models do and public
            checkpoints do not.
        logs: The logs a public checkpoint was trained on, for the statistics of their actions, which it lacks.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.

    >>> load_world_model("lewm-tworoom-3072").latent_dim
    192
    """
    directory = ZOO / source if str(source) in zoo() else Path(source)
    if _is_ours(directory):
        model = read_world_model(directory, clamp=clamp is not False)
        if directory.parent == ZOO:
            model.card["name"] = directory.name
        return model
    if not directory.exists() and "/" not in str(source):
        raise ReachcostError(
            f"there is no world model {str(source)!r}: choose a bundled one ({', '.join(zoo())}), a directory or file, "
            "or an id on the Hugging Face Hub (user/name)"
        )
    return load_checkpoint(source, logs=logs, clamp=bool(clamp), trust_pickle=trust_pickle)


def _is_ours(directory: Path) -> bool:
    """Whether the directory holds a model of `train_world_model`, finished or not."""
    if (directory / "training.pt").exists():
        return True
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return (directory / "weights.safetensors").exists()
    return isinstance(config, dict) and config.get("format") == FORMAT
