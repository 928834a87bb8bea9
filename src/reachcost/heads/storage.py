"""Heads on disk."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

from reachcost.base.atomic import new_directory
from reachcost.base.hub import Hub, Repository, is_name
from reachcost.base.modules import FILES, StoredModule, write_module
from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.heads.kinds import KINDS

FORMAT = "reachcost-head/1"
_TYPES = {"int": int, "float": (int, float), "bool": bool}


def save_head(head: LearnedHead, directory: str | Path) -> None:
    """Save the head as a new directory; it appears whole or not at all."""
    with new_directory(Path(directory)) as partial:
        write_head(head, partial)


def write_head(head: LearnedHead, directory: Path) -> None:
    """Write the head's two files into an existing directory."""
    config = {"format": FORMAT, "kind": head.kind, "arguments": head.config, "training": head.record}
    write_module(directory, head, config)


def load_head(directory: str | Path, hub: Hub | None = None) -> LearnedHead:
    """Load a head that `save_head` wrote, bit for bit, after checking both files.

    Args:
        directory: Where it was saved, or `hf://user/name` (perhaps with `@revision`) on the Hugging Face Hub.
        hub: Where to look for the latter; by default the hub itself.
    """
    repo = Repository.of(directory)
    place = Path(directory) if repo is None else repo.download(FILES, hub)
    if not place.is_dir():
        on_hub = f", or write hf://{directory} for one on the hub" if is_name(str(directory)) else ""
        raise ReachcostError(f"there is no head at {directory}: make one with reachcost fit or save_head{on_hub}")
    stored = StoredModule(place, "the head", "fit the head again, or get its directory again from where it came from")
    config = stored.config(FORMAT)
    if config.get("kind") not in KINDS or not isinstance(config.get("training"), dict):
        stored.refuse(f"config.json needs a kind ({', '.join(KINDS)}) and `training`")
    kind = KINDS[config["kind"]]
    _require_arguments(stored, kind, config.get("arguments"))
    head = stored.fill(lambda: kind(**config["arguments"]), config)
    head.record = _require_record(stored, config["training"])
    return head


def _require_record(stored: StoredModule, record: dict[str, Any]) -> dict[str, Any]:
    """Refuse a record whose parts others rely on and that are not what `fit` writes."""
    pairs = record.get("pairs", {})
    parts = [pairs, record.get("recipe", {})]
    parts += [pairs.get(name, {}) for name in ("model", "exclusion")] if isinstance(pairs, dict) else []
    if not all(isinstance(part, dict) for part in parts):
        stored.refuse("`training` in config.json is not a record of `fit`")
    model, excluded = pairs.get("model"), pairs.get("exclusion", {}).get("evaluation_sets_sha256", [])
    named = model is None or all(isinstance(model.get(key), str) for key in ("name", "sha256"))
    if not named or not isinstance(excluded, list):
        stored.refuse("`training` in config.json does not name its world model and evaluation sets as `fit` does")
    return record


def _require_arguments(stored: StoredModule, kind: type[LearnedHead], arguments: Any) -> None:
    wanted = {name: _TYPES[str(given.annotation)] for name, given in signature(kind).parameters.items()}
    if (
        not isinstance(arguments, dict)
        or arguments.keys() != wanted.keys()
        or not all(isinstance(arguments[name], types) for name, types in wanted.items())
        or not all(0 < value < float("inf") for name, value in arguments.items() if wanted[name] is not bool)
    ):
        stored.refuse(f"config.json needs valid `arguments` of a {kind.kind} head ({', '.join(wanted)})")
