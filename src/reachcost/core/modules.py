"""Trained modules on disk: `weights.safetensors` and a readable `config.json`. Loading never runs code from them.

`config.json` holds a format name, everything needed to rebuild the module, and a sha256 over itself and the weights.
Files that do not belong together, or were changed or truncated, are refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from reachcost.core.files import require_regular, write_file
from reachcost.core.json_files import read_json
from reachcost.errors import ReachcostError

FILES = ("config.json", "weights.safetensors")
Module = TypeVar("Module", bound=nn.Module)


def write_module(directory: Path, module: nn.Module, config: dict[str, Any]) -> None:
    """Write the two files of a module into an existing directory; `config` holds JSON values, among them `format`.

    `config.json` comes last: until it is there, nothing can be loaded.
    """
    tensors = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    try:
        weights = save(tensors)
    except RuntimeError as error:  # safetensors cannot store shared weights
        storages = [tensor.untyped_storage().data_ptr() for tensor in tensors.values()]
        tied = [name for name, storage in zip(tensors, storages, strict=True) if storages.count(storage) > 1]
        raise ReachcostError(
            f"cannot save a {type(module).__name__} whose weights {', '.join(tied)} share memory: "
            "keep them as one parameter, or give each a separate copy"
        ) from error
    config = {**config, "sha256": _checksum(config, weights)}
    write_file(directory / "weights.safetensors", weights)
    write_file(directory / "config.json", json.dumps(config, indent=2) + "\n")


def stored_format(directory: Path) -> str | None:
    """The format in the `config.json` of a directory, if there is one."""
    try:
        config = read_json(directory / "config.json")
    except (OSError, ValueError):
        return None
    found = config.get("format") if isinstance(config, dict) else None
    return found if isinstance(found, str) else None


class StoredModule:
    """A directory that `write_module` filled, checked step by step; errors name `what` it holds, such as "the head"."""

    def __init__(self, directory: Path, what: str, remedy: str) -> None:
        self._directory, self._what, self._remedy = directory, what, remedy

    def refuse(self, problem: str, cause: Exception | None = None) -> NoReturn:
        """Raise an error with the problem and the remedy."""
        raise ReachcostError(f"cannot load {self._what} in {self._directory}: {problem}: {self._remedy}") from cause

    @contextmanager
    def _explained(self, problem: str) -> Iterator[None]:
        """Turn all exceptions into one sentence: a damaged file or configuration may raise anything."""
        try:
            yield
        except Exception as error:
            reason = str(error) if isinstance(error, ReachcostError) else f"{type(error).__name__}: {error}"
            self.refuse(f"{problem} ({reason.partition(chr(10))[0][:200]})", error)

    def config(self, format_name: str) -> dict[str, Any]:
        """Read `config.json`, which must be of that format."""
        with self._explained("config.json cannot be read"):
            config = read_json(self._directory / "config.json")
        if not isinstance(config, dict) or config.get("format") != format_name:
            found = config.get("format") if isinstance(config, dict) else None
            self.refuse(f"config.json is of format {found!r}, not {format_name!r}")
        if not isinstance(config.get("sha256"), str):
            self.refuse("config.json has no `sha256`")
        return config

    def fill(self, build: Callable[[], Module], config: dict[str, Any]) -> Module:
        """Build the module and give it the stored weights, bit for bit; frozen and in eval mode."""
        with self._explained("weights.safetensors cannot be read"):
            require_regular(self._directory / "weights.safetensors")
            data = (self._directory / "weights.safetensors").read_bytes()
        if _checksum(config, data) != config["sha256"]:
            self.refuse("weights.safetensors and config.json do not belong together (truncated or changed)")
        with self._explained("weights.safetensors is malformed"):
            weights = load(data)
        with self._explained("config.json does not describe a module"), torch.device("meta"):  # allocates no memory
            module = build()
        expected, found = _shapes(module.state_dict()), _shapes(weights)
        for name in sorted(expected.keys() | found.keys()):
            if expected.get(name) != found.get(name):
                self.refuse(f"weight {name!r} is {found.get(name)}, but its config describes {expected.get(name)}")
        for name, tensor in weights.items():
            if not torch.isfinite(tensor).all():
                self.refuse(f"weight {name!r} is not finite")
        module.load_state_dict(weights, assign=True)
        return module.eval().requires_grad_(False)


def _shapes(tensors: dict[str, Tensor]) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}


def _checksum(config: dict[str, Any], weights: bytes) -> str:
    """sha256 over the weights and the configuration without its checksum."""
    covered = {key: value for key, value in config.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode() + weights).hexdigest()
