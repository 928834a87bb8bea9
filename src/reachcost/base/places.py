"""Places on disk as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_BROUGHT: dict[str, Path] = {}
"""Places by what people write for them, where that is on another machine."""


def expanded(path: str | Path) -> Path:
    """A path with the home directory for `~`; as it is, where nobody knows of one. What was brought here is here.

    >>> expanded("runs/model").name
    'model'
    """
    if (brought := _BROUGHT.get(str(Path(path)))) is not None:
        return brought
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def bring(places: Mapping[str, Path]) -> None:
    """From now on, take what people write for a place for another one: a copy of it on this machine.

    >>> bring({"nowhere/maze.py": Path("/tmp/maze.py")})
    >>> expanded("nowhere/maze.py").name
    'maze.py'
    """
    _BROUGHT.update({str(Path(written)): place for written, place in places.items()})
