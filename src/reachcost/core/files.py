"""Files and paths: names, checks, checksums, and writing that completes or leaves nothing.

A file or directory is written under a temporary name, fsynced and renamed. A writer locks its temporary file while it
lives, so that leftovers of dead writers can be removed. These locks are of the file itself, and some are shared:
`filelock` has neither, it locks an extra file. Everything else uses `filelock`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape
from pathlib import Path
from uuid import uuid4

from reachcost.errors import ReachcostError

LONGEST_NAME = 200
"""Maximum bytes of a file name: file systems allow 255, and temporary names are longer."""
PARTIAL_NAME = re.compile(r"\..+\.[0-9a-f]{32}\.partial", re.DOTALL)
"""Temporary names."""


def is_file_name(name: str) -> bool:
    r"""Whether a text can name a file or a directory: one part of a path, not hidden, printable.

    >>> [is_file_name(name) for name in ("trm-0.5", "..", "a/b", "a\0b", "")]
    [True, False, False, False, False]
    """
    one_part = name.isprintable() and name.strip(". ") == name and not {"/", "\\"} & {*name}
    return one_part and 0 < len(name.encode()) <= LONGEST_NAME


def require_regular(path: Path) -> None:
    """Raise OSError unless the path is a regular file: opening a pipe would wait."""
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "it is not a file", str(path))


def require_file(path: Path, overwrite: bool) -> None:
    """Refuse an existing path: any directory, device or pipe, and a file unless `overwrite`."""
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


def sha256_of(path: Path) -> str:
    """sha256 of a file."""
    require_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_directory(given: str | Path | None = None) -> Path:
    """The given directory, or that of the environment variable `REACHCOST_CACHE`, or `~/.cache/reachcost`."""
    try:
        return Path(given or os.environ.get("REACHCOST_CACHE") or "~/.cache/reachcost").expanduser()
    except RuntimeError as error:
        raise ReachcostError(
            "there is no home directory to keep latents in: name another in REACHCOST_CACHE, or pass cache=False"
        ) from error


_REDIRECTED: dict[str, Path] = {}
"""Local copies of files of another machine, by their paths there."""


def redirect_paths(copies: Mapping[str, Path]) -> None:
    """Make `expand_path` return local copies of these paths."""
    _REDIRECTED.update({str(Path(path)): copy for path, copy in copies.items()})


def expand_path(path: str | Path) -> Path:
    """A path with `~` replaced by the home directory, if there is one, and redirected to a local copy."""
    if (copy := _REDIRECTED.get(str(Path(path)))) is not None:
        return copy
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


LARGEST_DATA = 2**20
"""Maximum size of a data file that is sent with its package, in bytes."""


def user_files(reads: Iterable[str]) -> Iterable[Path]:
    """Files that a study reads, and loaded modules, with data of their packages, that are not installed."""
    for path in map(expand_path, reads):
        yield from (file for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file())
    modules = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    for module in (Path(file) for file in modules if file and _is_user_module(file)):
        yield module
        if module.name == "__init__.py":
            yield from _package_data(module.parent)


@cache  # there are thousands of modules
def _is_user_module(module: str) -> bool:
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed.append(Path(__file__).resolve().parents[2])
    path = Path(module)
    return path.suffix == ".py" and path.is_file() and not any(path.resolve().is_relative_to(one) for one in installed)


@cache
def _package_data(directory: Path) -> list[Path]:
    """Data files of a package, without large ones."""
    found = (file for file in sorted(directory.iterdir()) if file.suffix not in (".py", ".pyc") and file.is_file())
    return [file for file in found if file.stat().st_size <= LARGEST_DATA]


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory, which becomes `path` when the block ends, and is removed if it fails."""
    if path.exists():
        raise ReachcostError(f"{path} exists already: choose another name, or remove it first")
    with scratch_directory(path) as partial:
        yield partial
        for file in (*partial.rglob("*"), partial):
            _fsync(file)
        try:
            partial.rename(path)
        except OSError as error:
            raise ReachcostError(f"{path} was made by another process: choose another name") from error
        _fsync(path.parent)


@contextmanager
def new_file(path: Path, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary file, which becomes `path` when the block ends, and is removed if it fails."""
    require_file(path, overwrite)
    with _temporary(path, Path.touch) as partial:
        yield partial
        _fsync(partial)
        require_file(path, overwrite)  # another process may have made it
        partial.replace(path)
        _fsync(path.parent)


def write_file(path: Path, content: str | bytes) -> None:
    """Replace the file at `path` in one step."""
    with new_file(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


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


def make_directory(directory: Path, wanted: Path) -> None:
    """Make a directory and its parents, unless it exists; errors name the path that is wanted in it."""
    with _explained(wanted):
        directory.mkdir(parents=True, exist_ok=True)


@contextmanager
def scratch_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory next to `path`, which is removed when the block ends, or by the next writer."""
    with _temporary(path, Path.mkdir) as partial:
        yield partial


def shared_directory(path: Path, key: str) -> tuple[Path, Callable[[], None]]:
    """A temporary directory next to `path` for all processes with one key, and the function that leaves it.

    It is removed when the last of them leaves, or by the next writer if they died. The key has 32 hexadecimal digits.
    """
    make_directory(path.parent, path)
    directory = path.with_name(f".{path.name}.{key}.partial")
    while True:
        with _explained(path):
            directory.mkdir(exist_ok=True)
        with _explained(path), suppress(FileNotFoundError):  # another process removed it at this moment
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(handle, fcntl.LOCK_SH)
            if directory.stat().st_ino == os.fstat(handle).st_ino:
                break
            os.close(handle)

    def leave() -> None:
        with suppress(OSError):  # others are still there
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(directory)

    return directory, leave


def private_directory(path: Path) -> Path:
    """Make a directory that no other user can read or write, or check that it is one."""
    with _explained(path):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise ReachcostError(f"{path} may be another user's: remove it, or set TMPDIR to another directory")
        path.chmod(0o700)
    return path


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock a directory, for several files that belong together; it leaves no file."""
    with _opened(directory) as handle:
        with suppress(OSError):  # a system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def remove_leftovers(directory: Path) -> None:
    """Remove temporary files of dead writers below a directory."""
    for partial in directory.rglob(".*.partial"):
        _remove_if_dead(partial)


def _remove_if_dead(partial: Path) -> None:
    if PARTIAL_NAME.fullmatch(partial.name) and not partial.is_symlink():
        with suppress(OSError), _opened(partial) as handle:  # its writer lives, or has removed it
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(partial)


@contextmanager
def _temporary(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A locked file or directory next to `path`, removed at the end; removes leftovers of dead writers first."""
    make_directory(path.parent, path)
    for left in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 32}.partial"):
        _remove_if_dead(left)
    while True:
        partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
        with _explained(path):
            make(partial)
            handle = os.open(partial, os.O_RDONLY)
        with suppress(OSError):  # a system without locks, where no writer can be proved dead
            fcntl.flock(handle, fcntl.LOCK_EX)
        if partial.exists():  # otherwise it was removed before it was locked
            break
        os.close(handle)
    try:
        yield partial
    finally:
        _remove(partial)
        os.close(handle)


def _remove(partial: Path) -> None:
    if partial.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
    else:
        partial.unlink(missing_ok=True)


@contextmanager
def _explained(wanted: Path) -> Iterator[None]:
    """Turn an error of the system into one sentence that names the path that is wanted."""
    try:
        yield
    except OSError as error:
        reason = "a file has this name" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise ReachcostError(f"cannot write {wanted} ({reason}): choose another place") from error


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _fsync(path: Path) -> None:
    with _opened(path) as handle:
        os.fsync(handle)
