"""Values of a JSON file that others wrote, as typed objects; what does not fit is refused with its place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from reachcost.core.json_files import read_json
from reachcost.errors import ReachcostError

Read = TypeVar("Read")
LONGEST = 20_000
"""Characters of a text, unless it is a picture."""


def read_record(path: Path) -> Any:
    """The values of a JSON file, or one sentence."""
    try:
        return read_json(path)
    except OSError as error:
        raise ReachcostError(f"{path} cannot be read ({error.strerror or error}): check the path") from error
    except ValueError as error:
        raise ReachcostError(f"{path} is not valid JSON ({error}): give a record as reachcost writes it") from error


def read_as(kind: type[Read], value: Any, where: str) -> Read:
    """A JSON value as a dataclass (its further keys are ignored), or refused.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Place:
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> read_as(Place, {"x": 1, "names": ["door"], "seen": True}, "map.json")
    Place(x=1.0, names=('door',))
    >>> read_as(Place, {"x": "far"}, "map.json")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: map.json: x is 'far', no number: give a record as reachcost writes it
    """
    return _read(kind, value, where, "")


def _read(kind: Any, value: Any, where: str, name: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        return _read(next(part for part in parts if part is not NoneType), value, where, name)
    if origin is Literal:
        return value if value in parts else _refuse(where, name, value, f"none of {', '.join(map(repr, parts))}")
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, value, where, name)
    if origin in (tuple, Sequence):
        if not isinstance(value, list):
            _refuse(where, name, value, "no list")
        several = parts if origin is tuple and parts[-1] is not ... else (parts[0],) * len(value)
        if len(several) != len(value):
            _refuse(where, name, value, f"no list of {len(several)}")
        return tuple(
            _read(part, one, where, f"{name}[{at}]") for at, (part, one) in enumerate(zip(several, value, strict=True))
        )
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            _refuse(where, name, value, "no object")
        return {key: _read(parts[1], one, where, f"{name}.{key[:80]}") for key, one in value.items()}
    return _simple(kind, value, where, name)


def _dataclass(kind: type, value: Any, where: str, name: str) -> Any:
    if not isinstance(value, dict):
        _refuse(where, name or kind.__name__, value, "no object")
    hints, found = get_type_hints(kind), {}
    for field in fields(kind):
        inside = f"{name}.{field.name}" if name else field.name
        if field.name in value:
            found[field.name] = _read(hints[field.name], value[field.name], where, inside)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ReachcostError(f"{where} has no `{inside}`: give a record as reachcost writes it")
    try:
        return kind(**found)
    except ReachcostError as error:
        raise ReachcostError(f"{where}: {name + ': ' if name else ''}{error}") from error


def _simple(kind: Any, value: Any, where: str, name: str) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else _refuse(where, name, value, "no number")
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return value if len(value) <= LONGEST or value.startswith("data:") else _refuse(where, name, value, "too long")
    wanted = {float: "no number", int: "no whole number", bool: "neither true nor false", str: "no text"}
    return _refuse(where, name, value, wanted.get(kind, "not expected"))


def _refuse(where: str, name: str, value: Any, why: str) -> NoReturn:
    shown = repr(value)[:60]
    raise ReachcostError(f"{where}: {name} is {shown}, {why}: give a record as reachcost writes it")
