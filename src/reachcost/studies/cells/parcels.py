"""Files that travel to workers who share no disk with the driver: by content, each once, in pieces.

Whoever carries them (`put` here, `get` there) needs to know nothing of them; what arrives has the sha256 of what left.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from reachcost.base.pieces import PIECE
from reachcost.base.places import expanded
from reachcost.errors import ReachcostError
from reachcost.results.records import is_recorded, read_run
from reachcost.studies.cells.executor import Job

PACKED = 4 * PIECE
"""Bytes that travel together."""


class Parcel(NamedTuple):
    """The content of a file."""

    sha256: str
    pieces: tuple[Any, ...]
    """What `get` turns into bytes."""


class Cargo(NamedTuple):
    """An errand, and what a worker elsewhere needs for it and was not sent before."""

    errand: bytes
    """Of `pickled`."""
    runs: dict[str, Parcel]
    """Files of finished runs, by where they are in the output directory."""
    files: dict[str, Parcel]
    """Files of the user's, by what they are `called`."""
    places: dict[str, str]
    """What some of them are called, or a directory of them, by how the user wrote it."""
    search: list[str]
    """Where to look for modules among them."""
    latents: dict[str, list[tuple[int, int, Parcel]]]
    """First row, row to stop before and content, by the key of the latents."""


class Sender:
    """Packs files; those of equal content once.

    Args:
        put: Lays bytes down where workers can get them.
    """

    def __init__(self, put: Callable[[bytes], Any]) -> None:
        self._put = put
        self._packed: dict[str, Parcel] = {}
        self._known: dict[tuple[Path, int, int], str] = {}

    def pack_bytes(self, content: bytes) -> Parcel:
        """The parcel of something small."""
        return Parcel(hashlib.sha256(content).hexdigest(), (self._put(content),))

    def pack(self, path: Path) -> Parcel:
        """The parcel of a file, which is read piece by piece."""
        try:
            state = path.stat()
            seen = path, state.st_size, state.st_mtime_ns
            if seen not in self._known:
                digest = hashlib.sha256()
                for piece in _pieces(path):
                    digest.update(piece)
                self._known[seen] = digest.hexdigest()
            sha256 = self._known[seen]
            if sha256 not in self._packed:
                self._packed[sha256] = Parcel(sha256, tuple(self._put(piece) for piece in _pieces(path)))
            return self._packed[sha256]
        except OSError as error:
            raise ReachcostError(f"cannot send {path} to workers ({error.strerror}): make it readable") from error


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PACKED):
            yield piece


def unpacked(parcel: Parcel, get: Callable[[Any], bytes]) -> Iterator[bytes]:
    """What is in a parcel, piece by piece; at the end it is found to be what was sent."""
    digest = hashlib.sha256()
    for piece in parcel.pieces:
        content = get(piece)
        digest.update(content)
        yield content
    if digest.hexdigest() != parcel.sha256:
        raise ReachcostError("a file was changed while it was sent to workers: let nothing change, and run it again")


def unpack(parcel: Parcel, place: Path, get: Callable[[Any], bytes]) -> None:
    """Make a file of a parcel; it appears when complete, and is left alone if it is there."""
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".{uuid4().hex}")
    try:
        with partial.open("wb") as file:
            file.writelines(unpacked(parcel, get))
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)


def files_of_runs(job: Job, out: Path) -> dict[str, Path]:
    """What a worker needs of finished runs: their records, by where they are below `out`, and files the cell names."""
    runs = [read_run(path) for path in dict.fromkeys(job.runs) if is_recorded(path)]
    records = [file for run in runs for file in run.kept_files]
    named = [path for path in sorted(job.cell.reads) if path.exists()]
    return {str(path.relative_to(out)): path for path in dict.fromkeys([*records, *named])}


def own_files(reads: Iterable[str]) -> dict[str, Path]:
    """Every file that a study reads, or runs, and that comes with no package, by what it is called in a worker."""
    named = [expanded(text) for text in reads]
    below = [file for path in named for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    files = [path for path in below if path.is_file()]
    return {called(path): path for path in dict.fromkeys([*files, *_own_modules()])}


def called(path: Path) -> str:
    """What a file or directory of the driver is called in a worker, below a directory for these."""
    return os.path.normpath(path.absolute()).lstrip(os.sep)


def _own_modules() -> list[Path]:
    """Modules that are loaded and no part of an installed package."""
    loaded = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    return [Path(file) for file in loaded if file and _is_own(file)]


@cache  # there are thousands of them
def _is_own(module: str) -> bool:
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed.append(Path(__file__).resolve().parents[2])
    path = Path(module)
    return path.suffix == ".py" and path.is_file() and not any(path.resolve().is_relative_to(one) for one in installed)
