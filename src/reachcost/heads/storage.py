"""Heads on disk: `weights.safetensors` beside a readable `config.json`. Loading never runs code from the files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from reachcost.atomic import new_directory
from reachcost.errors import ReachcostError
from reachcost.heads.pair import PairHead

FORMAT = "reachcost-head/1"
REMEDY = "fit the head again, or restore the directory from where it was copied"


def save_head(head: PairHead, directory: str | Path) -> None:
    """Save the head as a new directory; it appears whole or not at all."""
    with new_directory(Path(directory)) as partial:
        write_head(head, partial)


def write_head(head: PairHead, directory: Path) -> None:
    """Write the head's two files into an existing directory."""
    weights = save({name: tensor.contiguous() for name, tensor in head.state_dict().items()})
    config = {"format": FORMAT, "kind": "pair", "arguments": head.config, "training": head.record}
    config["sha256"] = _checksum(config, weights)
    (directory / "weights.safetensors").write_bytes(weights)
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_head(directory: str | Path) -> PairHead:
    """Load a head that `save_head` wrote, bit for bit, after checking both files."""
    directory = Path(directory)
    config = _read_config(directory)
    weights = _read_weights(directory, config)
    with torch.device("meta"):  # shapes only: a wrong config must not allocate anything
        head = PairHead(**config["arguments"])
    expected = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in head.state_dict().items()}
    found = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            _refuse(directory, f"weight {name!r} is {found.get(name)}, its config asks for {expected.get(name)}")
    for name, tensor in weights.items():
        if not torch.isfinite(tensor).all():
            _refuse(directory, f"weight {name!r} is not finite")
    head.load_state_dict(weights, assign=True)
    head.record = config["training"]
    return head.eval().requires_grad_(False)


def _refuse(directory: Path, what: str, cause: Exception | None = None) -> None:
    raise ReachcostError(f"cannot load the head in {directory}: {what}: {REMEDY}") from cause


def _read_config(directory: Path) -> dict[str, Any]:
    config: Any = None
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        _refuse(directory, f"config.json cannot be read ({error.strerror})", error)
    except ValueError as error:
        _refuse(directory, f"config.json is not valid JSON ({error})", error)
    if not isinstance(config, dict) or config.get("format") != FORMAT or config.get("kind") != "pair":
        _refuse(directory, f"config.json is not of format {FORMAT!r}, kind 'pair'")
    types = {"latent_dim": int, "hidden": int, "scale": (int, float), "symmetric": bool}
    arguments = config.get("arguments")
    if (
        not isinstance(arguments, dict)
        or arguments.keys() != types.keys()
        or not all(isinstance(arguments[name], kind) for name, kind in types.items())
        or not all(0 < arguments[name] < float("inf") for name in ("latent_dim", "hidden", "scale"))
        or not isinstance(config.get("training"), dict)
        or not isinstance(config.get("sha256"), str)
    ):
        _refuse(directory, f"config.json needs valid `arguments` ({', '.join(types)}), `training` and `sha256`")
    return config


def _checksum(config: dict[str, Any], weights: bytes) -> str:
    """sha256 over everything but the checksum itself: another scale or symmetry is another head."""
    covered = {key: value for key, value in config.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode() + weights).hexdigest()


def _read_weights(directory: Path, config: dict[str, Any]) -> dict[str, torch.Tensor]:
    data = b""
    try:
        data = (directory / "weights.safetensors").read_bytes()
    except OSError as error:
        _refuse(directory, f"weights.safetensors cannot be read ({error.strerror})", error)
    if _checksum(config, data) != config["sha256"]:
        _refuse(directory, "weights.safetensors and config.json do not belong together (truncated or changed)")
    try:
        return load(data)
    except SafetensorError as error:
        raise ReachcostError(
            f"cannot load the head in {directory}: weights.safetensors is malformed ({error}): {REMEDY}"
        ) from error
