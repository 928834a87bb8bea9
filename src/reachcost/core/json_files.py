"""JSON from strangers: read in one place, within bounds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from reachcost.core.files import require_regular

LARGEST = 64 * 2**20
"""Bytes of a file that are read."""
DEEPEST = 64
"""Objects within objects; what goes deeper would only be a trap for whoever walks through it."""
DIGITS = 20
"""Of a whole number; those of more fit into no array, and some not even into a float."""


def read_json(path: Path) -> Any:
    """What a file of JSON holds; OSError where it cannot be read, ValueError for anything else that is wrong."""
    require_regular(path)
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it has more than {LARGEST // 2**20} MB")
    return parse_json(data)


def parse_json(data: bytes) -> Any:
    """Values of JSON: finite numbers, names that come once, text that can be written; ValueError for anything else.

    >>> parse_json(b'{"x": [1, 2.5]}')
    {'x': [1, 2.5]}
    >>> parse_json(b"[NaN]")
    Traceback (most recent call last):
    ValueError: NaN is no number
    """
    try:
        found = json.loads(
            data.decode(),
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_object,
        )
        if b"\\u" in data:  # half of a pair of characters, say, which no file takes
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    level = [found]
    for _ in range(DEEPEST):
        level = [part for whole in level for part in _parts(whole)]
    if level:
        raise ValueError("it is nested too deeply")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _whole(text: str) -> int:
    return int(text) if len(text) <= DIGITS else _no_number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is there twice")
    return found


def _parts(whole: object) -> list[Any]:
    if isinstance(whole, dict):
        return [*whole.values()]
    return whole if isinstance(whole, list) else []
