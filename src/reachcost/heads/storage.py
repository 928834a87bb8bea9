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
    config = {
        "format": FORMAT,
        "kind": "pair",
        "arguments": head.config,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "training": head.record,
    }
    (directory / "weights.safetensors").write_bytes(weights)
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_head(directory: str | Path) -> PairHead:
    """Load a head that `save_head` wrote, bit for bit, after checking every byte of it."""
    directory = Path(directory)
    config = _read_config(directory)
    weights = _read_weights(directory, config["weights_sha256"])
    with torch.device("meta"):  # shapes only: a wrong config must not allocate anything
        head = PairHead(**config["arguments"])
    expected = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if expected != found:
        _refuse(directory, f"its weights have shapes {found}, its config asks for {expected}")
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
        or not isinstance(config.get("training"), dict)
        or not isinstance(config.get("weights_sha256"), str)
    ):
        _refuse(
            directory,
            f"config.json needs `arguments` with {', '.join(types)}, `training` and `weights_sha256`",
        )
    return config


def _read_weights(directory: Path, sha256: str) -> dict[str, torch.Tensor]:
    data = b""
    try:
        data = (directory / "weights.safetensors").read_bytes()
    except OSError as error:
        _refuse(directory, f"weights.safetensors cannot be read ({error.strerror})", error)
    if hashlib.sha256(data).hexdigest() != sha256:
        _refuse(directory, "weights.safetensors is not the file its config describes (truncated or changed)")
    try:
        return load(data)
    except SafetensorError as error:
        raise ReachcostError(
            f"cannot load the head in {directory}: weights.safetensors is malformed ({error}): {REMEDY}"
        ) from error
