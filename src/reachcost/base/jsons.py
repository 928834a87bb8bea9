"""JSON from strangers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DEEPEST = 64
"""Objects within objects; what goes deeper would only be a trap for whoever walks through it."""


def read_json(path: Path) -> Any:
    """What a file of JSON holds; OSError where it cannot be read, ValueError for anything else that is wrong."""
    data = path.read_bytes()
    try:
        found = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    level = [found]
    for _ in range(DEEPEST):
        level = [part for whole in level for part in _parts(whole)]
    if level:
        raise ValueError("it is nested too deeply")
    return found


def _parts(whole: object) -> list[Any]:
    if isinstance(whole, dict):
        return [*whole.values()]
    return whole if isinstance(whole, list) else []
