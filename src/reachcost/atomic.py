"""Nothing half-written is ever read as complete: write aside, fsync, rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reachcost.errors import ReachcostError


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Fill a directory aside; it appears at `path` whole when the block ends, and not at all if it fails."""
    if path.exists():
        raise ReachcostError(f"{path} exists already: choose another name, or remove it first")
    partial = path.parent / f".{path.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for file in partial.rglob("*"):
            _fsync(file)
        _fsync(partial)
        partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _fsync(path.parent)


def write_file(path: Path, content: str | bytes) -> None:
    """Replace the file at `path` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    _fsync(partial)
    partial.replace(path)
    _fsync(path.parent)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
