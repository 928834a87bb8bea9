"""Nothing half-written is ever read as complete: write aside, fsync, rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from reachcost.errors import ReachcostError


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Fill a directory aside; it appears at `path` whole when the block ends, and not at all if it fails."""
    if path.exists():
        raise ReachcostError(f"{path} exists already: choose another name, or remove it first")
    partial = _aside(path)
    make_directory(partial, path)
    try:
        yield partial
        for file in partial.rglob("*"):
            _fsync(file)
        _fsync(partial)
        try:
            partial.rename(path)
        except OSError as error:
            raise ReachcostError(f"{path} was made by someone else meanwhile: choose another name") from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _fsync(path.parent)


@contextmanager
def scratch_directory(path: Path) -> Iterator[Path]:
    """A directory aside for what is needed meanwhile; it is gone when the block ends, and swept up if that is never."""
    partial = _aside(path)
    make_directory(partial, path)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Write a file aside; it takes the place of `path` when the block ends, and not at all if it fails."""
    make_directory(path.parent, path)
    partial = _aside(path)
    try:
        yield partial
        _fsync(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _fsync(path.parent)


def make_directory(directory: Path, wanted: Path) -> None:
    """Make a directory and those above it, unless it is there, for the sake of what is wanted."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "a file is in the way" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise ReachcostError(f"cannot write {wanted} ({reason}): choose another place") from error


def write_file(path: Path, content: str | bytes) -> None:
    """Replace the file at `path` in one step."""
    with replaced_file(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def sweep(directory: Path) -> None:
    """Remove what killed processes left aside below a directory that no other process is writing to."""
    for partial in directory.rglob(".*.partial"):
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink()


def _aside(path: Path) -> Path:
    """A name beside `path` that no other writer has."""
    return path.with_name(f".{path.name}.{uuid4().hex}.partial")


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
