"""A format as `make faults` knows it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


class Wrong(AssertionError):
    """Something was accepted that nobody can use."""


@dataclass(frozen=True)
class Format:
    """Files, and what is made of them."""

    name: str
    write: Callable[[Path], None]
    """Writes small ones into a directory."""
    read: Callable[[Path], str]
    """Uses all of them, and returns a digest of what they hold; raises `Wrong` about what nobody could use."""
    sealed: bool = False
    """Whether a checksum covers all that is read: nothing else than the undisturbed may come out."""
    ignored: tuple[str, ...] = ()
    """Ends of names of files that are not read."""


def digest(content: Mapping[str, Any]) -> str:
    """sha256 over arrays, bytes and JSON values, by name."""
    found = hashlib.sha256()
    for name, part in sorted(content.items()):
        found.update(name.encode())
        if isinstance(part, np.ndarray) and part.dtype.kind != "O":
            found.update(f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            found.update(part if isinstance(part, bytes) else json.dumps(part, default=repr, sort_keys=True).encode())
    return found.hexdigest()


def require_finite(name: str, values: np.ndarray) -> None:
    """Refuse numbers that nobody can use, which a reader should have refused."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Wrong(f"{name} is not finite")
