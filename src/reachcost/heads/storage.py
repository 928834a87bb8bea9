"""Heads on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reachcost.atomic import new_directory
from reachcost.heads.pair import PairHead
from reachcost.storage import StoredModule, write_module

FORMAT = "reachcost-head/1"


def save_head(head: PairHead, directory: str | Path) -> None:
    """Save the head as a new directory; it appears whole or not at all."""
    with new_directory(Path(directory)) as partial:
        write_head(head, partial)


def write_head(head: PairHead, directory: Path) -> None:
    """Write the head's two files into an existing directory."""
    config = {"format": FORMAT, "kind": "pair", "arguments": head.config, "training": head.record}
    write_module(directory, head, config)


def load_head(directory: str | Path) -> PairHead:
    """Load a head that `save_head` wrote, bit for bit, after checking both files."""
    stored = StoredModule(
        Path(directory), "the head", "fit the head again, or restore the directory from where it was copied"
    )
    config = stored.config(FORMAT)
    _require_arguments(stored, config)
    head = stored.fill(lambda: PairHead(**config["arguments"]), config)
    head.record = config["training"]
    return head


def _require_arguments(stored: StoredModule, config: dict[str, Any]) -> None:
    types = {"latent_dim": int, "hidden": int, "scale": (int, float), "symmetric": bool}
    arguments = config.get("arguments")
    if (
        config.get("kind") != "pair"
        or not isinstance(arguments, dict)
        or arguments.keys() != types.keys()
        or not all(isinstance(arguments[name], kind) for name, kind in types.items())
        or not all(0 < arguments[name] < float("inf") for name in ("latent_dim", "hidden", "scale"))
        or not isinstance(config.get("training"), dict)
    ):
        stored.refuse(f"config.json needs kind 'pair', valid `arguments` ({', '.join(types)}) and `training`")
