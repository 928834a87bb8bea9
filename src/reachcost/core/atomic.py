"""Files and directories that appear complete or not at all: written under a temporary name, fsynced, renamed.

A writer locks its temporary file while it lives, so that leftovers of dead writers can be removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

from reachcost.core.files import require_regular
from reachcost.errors import ReachcostError

PARTIAL_NAME = re.compile(r"\..+\.[0-9a-f]{32}\.partial", re.DOTALL)
"""Temporary names."""


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory, which becomes `path` when the block ends, and is removed if it fails."""
    if path.exists():
        raise ReachcostError(f"{path} exists already: choose another name, or remove it first")
    with _temporary(path, Path.mkdir) as partial:
        yield partial
        for file in partial.rglob("*"):
            _fsync(file)
        _fsync(partial)
        try:
            partial.rename(path)
        except OSError as error:
            raise ReachcostError(f"{path} was made by another process: choose another name") from error
    _fsync(path.parent)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file, which becomes `path` when the block ends, unless `path` exists by then."""
    with _temporary(path, Path.touch) as partial:
        yield partial
        _fsync(partial)
        try:
            path.hardlink_to(partial)  # unlike a rename, it replaces nothing
        except OSError as error:  # it exists, or this system has no such links
            if path.exists() or path.is_symlink():
                raise ReachcostError(f"{path} was made by another process: choose another name") from error
            partial.rename(path)
    _fsync(path.parent)


@contextmanager
def scratch_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory next to `path`, which is removed when the block ends, or by the next writer."""
    with _temporary(path, Path.mkdir) as partial:
        yield partial


def shared_directory(path: Path, key: str) -> tuple[Path, Callable[[], None]]:
    """A temporary directory next to `path` for all processes with one key, and the function that leaves it.

    It is removed when the last of them leaves, or by the next writer if they died.

    Args:
        path: What it belongs to.
        key: 32 hexadecimal digits.
    """
    make_directory(path.parent, path)
    directory = path.with_name(f".{path.name}.{key}.partial")
    while (handle := _share(directory)) is None:
        pass  # another process removed it at this moment

    def leave() -> None:
        with suppress(OSError):  # others are still there
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(directory)

    return directory, leave


def _share(directory: Path) -> int | None:
    """The handle of a shared lock on a directory; None if the directory was removed before that."""
    try:
        directory.mkdir(exist_ok=True)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and directory.parent.is_dir():
            return None
        _refuse(directory, error)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        if directory.stat().st_ino == os.fstat(handle).st_ino:
            return handle
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            os.close(handle)
            _refuse(directory, error)
    os.close(handle)
    return None


def private_directory(path: Path) -> Path:
    """Make a directory that no other user can read or write, or check that it is one."""
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise ReachcostError(f"{path} may be another user's: remove it, or set TMPDIR to another directory")
        path.chmod(0o700)
    except OSError as error:
        _refuse(path, error)
    return path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file, which replaces `path` when the block ends, and is removed if it fails."""
    require_file(path, overwrite=True)
    with _temporary(path, Path.touch) as partial:
        yield partial
        _fsync(partial)
        partial.replace(path)
    _fsync(path.parent)


def require_file(path: Path, overwrite: bool) -> None:
    """Refuse an existing path: always a directory, device or pipe, a file unless `overwrite`."""
    try:
        kind = path.stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(kind):
        raise ReachcostError(f"{path} exists already, and is not a file: choose another name or --out")
    if not overwrite:
        raise ReachcostError(
            f"{path} exists already: choose another name or --out, or replace it (overwrite=True, --overwrite)"
        )


def make_directory(directory: Path, wanted: Path) -> None:
    """Make a directory and its parents, unless it exists; errors name the path that is wanted in it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _refuse(wanted, error)


def write_file(path: Path, content: str | bytes) -> None:
    """Replace the file at `path` in one step."""
    with replaced_file(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock a directory, for several files that belong together; it leaves no file."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # a system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def remove_leftovers(directory: Path) -> None:
    """Remove temporary files of dead writers below a directory."""
    for partial in directory.rglob(".*.partial"):
        _remove_if_dead(partial)


def _remove_if_dead(partial: Path) -> None:
    if PARTIAL_NAME.fullmatch(partial.name) and not partial.is_symlink():
        with suppress(OSError):  # its writer lives, or has removed it
            handle = os.open(partial, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(partial)
            finally:
                os.close(handle)


@contextmanager
def _temporary(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A locked file or directory next to `path`, removed at the end; removes leftovers of dead writers first."""
    make_directory(path.parent, path)
    for left in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 32}.partial"):
        _remove_if_dead(left)
    partial, handle = _make_locked(path, make)
    try:
        yield partial
    finally:
        _remove(partial)
        os.close(handle)


def _make_locked(path: Path, make: Callable[[Path], None]) -> tuple[Path, int]:
    """A new file or directory under a unique name, and the handle of its lock."""
    while True:
        partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
        try:
            make(partial)
            handle = os.open(partial, os.O_RDONLY)
        except OSError as error:
            _refuse(path, error)
        with suppress(OSError):  # a system without locks, where no writer can be proved dead
            fcntl.flock(handle, fcntl.LOCK_EX)
        if partial.exists():  # otherwise it was removed before it was locked
            return partial, handle
        os.close(handle)


def _remove(partial: Path) -> None:
    if partial.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
    else:
        partial.unlink(missing_ok=True)


def _refuse(wanted: Path, error: OSError) -> NoReturn:
    reason = "a file is in the way" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
    raise ReachcostError(f"cannot write {wanted} ({reason}): choose another place") from error


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


CHECKSUM_MARK = b"reachcost-sealed "


def write_with_checksum(path: Path, content: bytes) -> None:
    """Replace the file at `path` in one step by its content and a checksum."""
    write_file(path, b"%b%b\n%b" % (CHECKSUM_MARK, hashlib.sha256(content).hexdigest().encode(), content))


def read_with_checksum(path: Path) -> bytes:
    """The content that `write_with_checksum` wrote; ValueError if it was changed."""
    require_regular(path)
    seal, _, content = path.read_bytes().partition(b"\n")
    if seal != CHECKSUM_MARK + hashlib.sha256(content).hexdigest().encode():
        raise ValueError("its checksum does not fit")
    return content
