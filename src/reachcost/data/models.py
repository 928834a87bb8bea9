"""World models: their fingerprint, and calls of `encode` and `rollout` that check what these return."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import cached_property
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.core.devices import device_of, refuse_if
from reachcost.core.parallel import all_threads
from reachcost.errors import ReachcostError, foreign_errors, refuse
from reachcost.protocols import Observations, WorldModel

WEIGHTS = nn.Module | Tensor | np.ndarray
SETTINGS = bool | int | float | str | np.generic
DEPTH = 3
"""Levels of nested objects whose settings count; deeper objects belong to libraries. Weights of all levels count."""


def fingerprint_of(model: object) -> str | None:
    """The `fingerprint` of a world model, else sha256 over its class, simple settings and weights.

    None for a model without weights: its class and settings alone do not identify it.

    >>> class Model:
    ...     def __init__(self, scale):
    ...         self.weight = scale * torch.eye(2)
    >>> fingerprint_of(Model(1)) == fingerprint_of(Model(1)), fingerprint_of(Model(1)) == fingerprint_of(Model(2))
    (True, False)
    >>> fingerprint_of(object()) is None
    True
    """
    if hasattr(model, "fingerprint"):
        return model.fingerprint  # pyright: ignore[reportAttributeAccessIssue]
    parts = list(parts_of(model))
    holds_weights = any(isinstance(part, WEIGHTS) for _, part in parts)
    return digest(type(model).__qualname__, parts) if holds_weights else None


def name_of(model: object) -> str:
    """Name of a world model in messages and records: its own `repr`, or the name of its class."""
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
        for key, value in _items(part):
            yield from parts_of(value, f"{name}.{key}", depth - 1, seen)


def digest(kind: str, parts: list[tuple[str, object]]) -> str:
    """sha256 over a name and named parts."""
    found = hashlib.sha256(kind.encode())
    for name, part in parts:
        found.update(f"|{name}=".encode())
        if isinstance(part, nn.Module):
            # Buffers outside the state dict are weights, too.
            tensors = {**dict(part.named_buffers()), **part.state_dict(keep_vars=True)}
            for key in sorted(tensors):
                found.update(f"|{key}=".encode() + _content(tensors[key]))
        else:
            found.update(_content(part))
    return found.hexdigest()


def _items(part: object) -> list[tuple[object, object]]:
    """Items of a container, then attributes by name, except cached properties and those of every module."""
    items = list(part.items()) if isinstance(part, Mapping) else []
    items += enumerate(part) if isinstance(part, list | tuple) else []
    if isinstance(part, type | FunctionType | ModuleType):
        return items
    hidden = {*vars(nn.Module())} if isinstance(part, nn.Module) else set()
    names = sorted(name for name in getattr(part, "__dict__", {}) if name not in hidden)
    kept = (name for name in names if not isinstance(getattr(type(part), name, None), cached_property))
    return [*items, *((name, vars(part)[name]) for name in kept)]


def _content(part: object) -> bytes:
    if isinstance(part, Tensor):
        flat = part.detach().cpu().contiguous().reshape(-1)
        return f"{part.dtype}{tuple(part.shape)}".encode() + flat.view(torch.uint8).numpy().tobytes()
    if isinstance(part, np.ndarray):
        return f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
    return repr(part).encode()


def require_model(model: object, *parts: str) -> None:
    """Raise an error for anything but a world model with these parts, by default all that planning needs."""
    wanted = parts or ("latent_dim", "action_dim", "encode", "rollout")
    if model is None or isinstance(model, str | PurePath | type):
        refuse(model, "the world model", "load one by rc.load_world_model(name), or write a class as rc.WorldModel")
    if missing := [part for part in wanted if not hasattr(model, part)]:
        refuse(model, "the world model", f"it lacks {', '.join(missing)}, see reachcost.WorldModel")


def history_of(model: object) -> int:
    """Maximum number of context frames, one action block apart, of a world model: its `history`, by default 1."""
    history = getattr(model, "history", 1)
    if isinstance(history, bool) or not isinstance(history, int | np.integer) or history < 1:
        raise ReachcostError(f"`history` of the world model is {history!r}: make it a positive int, or leave it out")
    return int(history)


def encode_rows(
    model: WorldModel, observations: Observations, rows: int, remedy: str = "give states as they are logged"
) -> Tensor:
    """The latents of `rows` observations [rows, D] in single precision; `remedy` is part of the error message."""
    failed = (
        f"`encode` of the world model {name_of(model)} failed on {rows} observations with {', '.join(observations)}"
    )
    with foreign_errors(failed, f"{remedy}, or fix it; reachcost.check_world_model tests it"):
        latents = model.encode(observations)
    return _checked(model, "encode", latents, (rows, model.latent_dim))


def predict_ends(model: WorldModel, context: Tensor, actions: Tensor) -> Tensor:
    """Predicted ends of candidates: context [B, T, D], actions [B, S, T - 1 + H, A] -> [B, S, D]."""
    device = device_of(model)
    with nullcontext() if getattr(model, "in_pieces", False) else all_threads():
        found = model.rollout(context.to(device), actions.to(device))
    ends = _checked(model, "rollout", found, (*actions.shape[:2], model.latent_dim))

    def refusal() -> NoReturn:
        wrong = ~torch.isfinite(ends).all(2)
        raise ReachcostError(
            f"`rollout` of the world model {name_of(model)} predicts {int(wrong.sum())} of {wrong.numel()} "
            "candidates to end in numbers that are not finite: check its predictor, also with large actions; "
            "reachcost.check_world_model tests it"
        )

    refuse_if(~torch.isfinite(ends).all(), refusal)
    return ends


def _checked(model: object, method: str, found: object, shape: tuple[int, ...]) -> Tensor:
    """The tensor that a method of a world model returned, in single precision; indices of states stay integers."""
    if not isinstance(found, Tensor) or found.shape != shape:
        returned = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ReachcostError(
            f"`{method}` of the world model {name_of(model)} returned {returned}: return a torch.Tensor {shape}"
        )
    return found.float() if found.is_floating_point() else found
