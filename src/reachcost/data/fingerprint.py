"""By what a world model is known: its own `fingerprint`, or one made of its weights and settings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import FunctionType, ModuleType

import numpy as np
import torch
from torch import Tensor, nn

WEIGHTS = nn.Module | Tensor | np.ndarray
SETTINGS = bool | int | float | str | np.generic
DEPTH = 3
"""Objects within objects whose settings count; deeper ones are those of foreign libraries. Weights count anywhere."""


def fingerprint_of(model: object) -> str | None:
    """The `fingerprint` of a world model; without one, sha256 over its class, simple settings and weights.

    None where it holds no weights: a class and its settings alone would not tell two models apart.

    >>> class Model:
    ...     def __init__(self, scale):
    ...         self.weight = scale * torch.eye(2)
    >>> fingerprint_of(Model(1)) == fingerprint_of(Model(1)), fingerprint_of(Model(1)) == fingerprint_of(Model(2))
    (True, False)
    >>> fingerprint_of(object()) is None
    True
    """
    if hasattr(model, "fingerprint"):
        return model.fingerprint  # pyright: ignore[reportAttributeAccessIssue] (asked for above)
    parts = list(parts_of(model))
    holds_weights = any(isinstance(part, WEIGHTS) for _, part in parts)
    return digest(type(model).__qualname__, parts) if holds_weights else None


def name_of(model: object) -> str:
    """How a world model is called in messages and records: its own `repr`, or the name of its class."""
    plain = type(model).__repr__ in (object.__repr__, nn.Module.__repr__)  # an address, or many lines
    return type(model).__name__ if plain else repr(model)


def parts_of(
    part: object, name: str = "", depth: int = DEPTH, seen: set[tuple[int, bool]] | None = None
) -> Iterator[tuple[str, object]]:
    """Modules, tensors, arrays and simple settings in the attributes and containers of an object, by path."""
    if isinstance(part, WEIGHTS) or (isinstance(part, SETTINGS) and depth >= 0):
        yield name, part
    seen, here = set() if seen is None else seen, (id(part), depth > 0)
    if here not in seen and not isinstance(part, Tensor | np.ndarray | SETTINGS):
        seen.add(here)
        for key, value in (*_items(part), *_attributes(part)):
            yield from parts_of(value, f"{name}.{key}", depth - 1, seen)


def digest(kind: str, parts: list[tuple[str, object]]) -> str:
    """sha256 over a name and named parts."""
    found = hashlib.sha256(kind.encode())
    for name, part in parts:
        found.update(f"|{name}=".encode())
        if isinstance(part, nn.Module):
            # Buffers that no state dict holds are weights, too.
            tensors = {**dict(part.named_buffers()), **part.state_dict(keep_vars=True)}
            for key in sorted(tensors):
                found.update(f"|{key}=".encode() + _content(tensors[key]))
        else:
            found.update(_content(part))
    return found.hexdigest()


def _items(part: object) -> list[tuple[object, object]]:
    if isinstance(part, Mapping):
        return list(part.items())
    return list(enumerate(part)) if isinstance(part, list | tuple) else []


def _attributes(part: object) -> list[tuple[str, object]]:
    """Attributes by name, without what is remembered, and without what every module has, its mode among it."""
    if isinstance(part, type | FunctionType | ModuleType):
        return []
    hidden = {*vars(nn.Module())} if isinstance(part, nn.Module) else set()
    names = sorted(name for name in getattr(part, "__dict__", {}) if name not in hidden)
    kept = (name for name in names if not isinstance(getattr(type(part), name, None), cached_property))
    return [(name, vars(part)[name]) for name in kept]


def _content(part: object) -> bytes:
    if isinstance(part, Tensor):
        flat = part.detach().cpu().contiguous().reshape(-1)
        return f"{part.dtype}{tuple(part.shape)}".encode() + flat.view(torch.uint8).numpy().tobytes()
    if isinstance(part, np.ndarray):
        return f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
    return repr(part).encode()
