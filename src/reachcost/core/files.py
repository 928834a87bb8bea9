"""Paths and regular files: names of users, checks, checksums, the cache directory."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from reachcost.errors import ReachcostError

LONGEST_NAME = 200
"""Maximum bytes of a file name: file systems allow 255, and temporary names are longer."""


def is_file_name(name: str) -> bool:
    r"""Whether a text can name a file or a directory: one part of a path, not hidden, printable.

    >>> [is_file_name(name) for name in ("trm-0.5", "..", "a/b", "a\0b", "")]
    [True, False, False, False, False]
    """
    return (
        name.isprintable()
        and name.strip(". ") == name
        and not {"/", "\\"} & {*name}
        and 0 < len(name.encode()) <= LONGEST_NAME
    )


def require_regular(path: Path) -> None:
    """Raise OSError unless the path is a regular file: opening a pipe would wait.

    >>> require_regular(Path("/dev/zero"))
    Traceback (most recent call last):
    OSError: [Errno 22] it is not a file: '/dev/zero'
    """
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "it is not a file", str(path))


def sha256_of(path: Path) -> str:
    """sha256 of a file."""
    require_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_REDIRECTED: dict[str, Path] = {}
"""Local copies of files of another machine, by their paths there."""


def expand_path(path: str | Path) -> Path:
    """A path with `~` replaced by the home directory, if there is one, and redirected to a local copy."""
    if (copy := _REDIRECTED.get(str(Path(path)))) is not None:
        return copy
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def redirect_paths(copies: Mapping[str, Path]) -> None:
    """Make `expand_path` return local copies of these paths."""
    _REDIRECTED.update({str(Path(path)): copy for path, copy in copies.items()})


def user_files(reads: Iterable[str]) -> Iterable[Path]:
    """Files that a study reads, and loaded modules, with data of their packages, that are not installed."""
    for path in map(expand_path, reads):
        yield from (file for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file())
    modules = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    for module in (Path(file) for file in modules if file and _is_own(file)):
        yield module
        yield from _package_data(module.parent) if module.name == "__init__.py" else ()


LARGEST_DATA = 2**20
"""Maximum size of a data file that is sent with its package, in bytes."""


@cache  # there are thousands of modules
def _is_own(module: str) -> bool:
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed.append(Path(__file__).resolve().parents[2])
    path = Path(module)
    return path.suffix == ".py" and path.is_file() and not any(path.resolve().is_relative_to(one) for one in installed)


@cache
def _package_data(directory: Path) -> list[Path]:
    """Data files of a package, without large ones."""
    found = (file for file in sorted(directory.iterdir()) if file.suffix not in (".py", ".pyc") and file.is_file())
    return [file for file in found if file.stat().st_size <= LARGEST_DATA]


def cache_directory(given: str | Path | None = None) -> Path:
    """The given directory, or that of the environment variable `REACHCOST_CACHE`, or `~/.cache/reachcost`."""
    try:
        return Path(given or os.environ.get("REACHCOST_CACHE") or "~/.cache/reachcost").expanduser()
    except RuntimeError as error:
        raise ReachcostError(
            "there is no home directory to keep latents in: name another in REACHCOST_CACHE, or pass cache=False"
        ) from error
