"""A format that reachcost reads: how to write a small example, and a digest of all that reading it gives."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


class Wrong(AssertionError):
    """A reader accepted something that cannot be used."""


@dataclass(frozen=True)
class Format:
    """Files of one format."""

    name: str
    write: Callable[[Path], object]
    """Writes them into a directory."""
    read: Callable[[Path], str]
    """Uses all of them, and returns a digest of what they hold; raises `Wrong` if it cannot be used."""
    sealed: bool = False
    """Whether a checksum covers all that is read, so that only the undisturbed values may come out."""
    ignored: tuple[str, ...] = ()
    """Suffixes of files that are not read."""


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
    """Raise `Wrong` if there are values that the reader should have refused."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Wrong(f"{name} is not finite")
