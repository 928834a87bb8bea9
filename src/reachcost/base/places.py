"""Places on disk as people write them."""

from __future__ import annotations

from pathlib import Path


def expanded(path: str | Path) -> Path:
    """A path with the home directory for `~`; as it is, where nobody knows of one.

    >>> expanded("runs/model").name
    'model'
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
