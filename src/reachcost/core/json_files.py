"""Untrusted JSON: parsed within bounds, then validated by pydantic into typed objects."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from reachcost.core.files import require_regular
from reachcost.errors import ReachcostError

LARGEST = 64 * 2**20
"""Maximum bytes of a file."""
DEEPEST = 64
"""Maximum depth of objects within objects."""
DIGITS = 20
"""Maximum digits of a whole number: longer ones fit into no array."""


def read_json(path: Path) -> Any:
    """Values of a JSON file; OSError if it cannot be read, ValueError if it is invalid."""
    require_regular(path)
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it has more than {LARGEST // 2**20} MB")
    return parse_json(data)


def parse_json(data: bytes) -> Any:
    """Values of JSON with finite numbers, unique names and valid text; ValueError for anything else."""
    try:
        found = json.loads(
            data.decode(),
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_object,
        )
        if b"\\u" in data:  # a lone surrogate, for example, cannot be written
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    level = [found]
    for _ in range(DEEPEST):
        level = [part for value in level for part in _parts(value)]
    if level:
        raise ValueError("it is nested too deeply")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a number")
    return number


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"{text[:40]} has more than {DIGITS} digits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:40]!r} occurs twice")
        found[name] = value
    return found


def _parts(value: object) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    return value if isinstance(value, list) else []


Read = TypeVar("Read")
LONGEST = 20_000
"""Maximum characters of a text that is not a picture."""
REMEDY = "give a record as reachcost writes it"


def read_record(path: Path) -> Any:
    """Return the values of a JSON file, or raise one sentence."""
    try:
        return read_json(path)
    except OSError as error:
        raise ReachcostError(f"{path} cannot be read ({error.strerror or error}): check the path") from error
    except ValueError as error:
        raise ReachcostError(f"{path} is not valid JSON ({error}): {REMEDY}") from error


def read_as(kind: type[Read], value: Any, where: str, remedy: str = REMEDY) -> Read:
    """Return a JSON value as a dataclass or pydantic model; raise one sentence if it does not fit.

    A dataclass ignores unknown keys. Nothing is converted, except lists to tuples and whole numbers to floats.

    Args:
        kind: The type to return.
        value: A JSON value, already parsed.
        where: Name of the file or request, for the error message.
        remedy: What the user should do about a value that does not fit.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Place:
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> read_as(Place, {"x": 1, "names": ["door"], "seen": True}, "map.json")
    Place(x=1.0, names=('door',))
    >>> read_as(Place, {"x": "far"}, "map.json", "give a map")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: map.json: x is 'far', should be a valid number: give a map
    """
    try:
        _require_short(value)
        return _adapter(kind).validate_json(json.dumps(value, allow_nan=False), strict=True)
    except ValidationError as error:
        raise ReachcostError(f"{where}: {first_problem(error, remedy)}") from error
    except ReachcostError as error:
        raise ReachcostError(f"{where}: {error}") from error
    except ValueError as error:
        raise ReachcostError(f"{where}: {error}: {remedy}") from error


def first_problem(error: ValidationError, remedy: str) -> str:
    """Return the first problem that pydantic found, with its place and what to do about it.

    A ReachcostError raised by the object's own checks keeps its own remedy.
    """
    found = error.errors(include_url=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in found["loc"]).lstrip(".")
    if isinstance(cause := found.get("ctx", {}).get("error"), ReachcostError):
        return f"{place}: {cause}" if place else str(cause)
    if found["type"] == "missing":
        return f"`{place}` is missing: {remedy}"
    message = found["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return f"{place or 'the value'} is {repr(found['input'])[:60]}, {message}: {remedy}"


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _require_short(value: Any) -> None:
    if isinstance(value, str) and len(value) > LONGEST and not value.startswith("data:"):
        raise ReachcostError(f"{value[:60]!r}... has more than {LONGEST:,} characters: {REMEDY}")
    for part in _parts(value):
        _require_short(part)
