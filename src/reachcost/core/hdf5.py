"""Reading HDF5 files without trusting their content.

The HDF5 library follows links to other files, believes any shape, and never returns from some damaged files. No option
of h5py prevents that, so all HDF5 files are read through this module.
"""

from __future__ import annotations

import contextlib
import logging
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np

from reachcost.core.arrays import CHUNK_BYTES
from reachcost.core.machine import defer_interrupts, require_memory
from reachcost.errors import ReachcostError, foreign_errors

HEAP = b"GCOL\x01\0\0\0"
"""First bytes of a heap: name, version and padding; its size follows."""
HEADER = 16
"""Bytes before the first object, and of an object before its content: number [2], references [2], padding [4], size."""
LARGEST_RATIO = 10_000
"""Maximum ratio of a column in memory to its file; blank frames are compressed to a thousandth."""
SMALL = 2**30
"""Bytes that every column may have, whatever the size of its file."""

logging.getLogger("hdf5plugin").setLevel(logging.CRITICAL)  # our own error reports a missing filter
with contextlib.suppress(ImportError):  # filters of compressed files that some projects release
    import hdf5plugin  # noqa: F401


@lru_cache(maxsize=64)
def require_heaps_that_end(path: Path, sizes: int, signature: tuple[int, ...] = ()) -> None:
    """Refuse a file with a heap without end, or with heaps that hold more than the file; sizes have `sizes` bytes."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        left = len(data) // HEADER  # maximum number of heaps and objects
        place = data.find(HEAP)
        while place >= 0:
            left -= 1 + _objects(data, place, sizes, left)
            if left < 0:
                raise ReachcostError(f"{path}: its heap at byte {place} is damaged: copy or generate the file again")
            place = data.find(HEAP, place + 1)


def _objects(data: mmap.mmap, place: int, sizes: int, most: int) -> int:
    """Number of objects of a heap; `most + 1` if it has no end or more objects than `most`."""

    def number(at: int, width: int) -> int:
        return int.from_bytes(data[at : at + width], "little")

    at, stop, count = place + HEADER, min(len(data), place + number(place + 8, sizes)), 0
    while at + HEADER <= stop and count <= most:
        size = number(at + 8, sizes)
        step = size if number(at, 2) == 0 else HEADER + (size + 7) // 8 * 8  # object 0 is the free space at the end
        if step % 2**64 == 0:
            return most + 1
        at, count = at + step, count + 1
    return count


def _require_rows_that_fit(path: Path, dataset: h5py.h5d.DatasetID) -> None:
    """Refuse variable-length rows that claim to be longer than the file, unless they are compressed."""
    width, most = dataset.get_type().get_size(), path.stat().st_size
    length = np.dtype({"names": ["length"], "formats": ["<u4"], "offsets": [0], "itemsize": width})
    layout, stored = dataset.get_create_plist(), []  # first byte and number of bytes of consecutive rows
    if layout.get_layout() == h5py.h5d.CHUNKED and not layout.get_nfilters():
        chunks = [dataset.get_chunk_info(number) for number in range(dataset.get_num_chunks())]
        stored = [(chunk.byte_offset, chunk.size) for chunk in chunks if chunk.byte_offset is not None]
    elif (begin := dataset.get_offset()) is not None:
        stored = [(begin, dataset.get_storage_size())]
    with path.open("rb") as file:
        for begin, size in stored:
            file.seek(begin)
            rows = np.frombuffer(file.read(size // width * width), length)["length"]
            if len(rows) and rows.max() > most:
                raise ReachcostError(f"{path}: a row claims {rows.max():,} bytes: copy or generate the file again")


class File:
    """A file that must not change and can be pickled: every process opens it when it first reads."""

    def __init__(self, path: Path, remedy: str) -> None:
        self.path, self._remedy = path, remedy
        self._signature = _signature(path)
        self._opened: tuple[int, h5py.File] | None = None

    def handle(self) -> h5py.File:
        """The open file of this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            if _signature(self.path) != self._signature:
                raise ReachcostError(f"{self.path} was changed since it was opened: open it again")
            with _sentences(self.path, remedy=self._remedy), defer_interrupts():
                self._opened = os.getpid(), h5py.File(self.path, "r")
        return self._opened[1]

    def close(self) -> None:
        """Close the file, until it is read again."""
        if self._opened is not None:
            with defer_interrupts():
                self._opened[1].close()
            self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


class Column:
    """Rows of numbers or text [R, ...] in a file, read by slices or row numbers, in any process."""

    def __init__(self, file: File, dataset: h5py.Dataset) -> None:
        self.where, self._file, self._source, self._dataset = file.path, file, file.handle(), dataset
        self.name = str(dataset.name).strip("/")
        self.shape: tuple[int, ...] = dataset.shape or ()
        self.dtype: np.dtype = dataset.dtype
        self.ndim = len(self.shape)
        self._fits = False

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        count = len(rows) if isinstance(rows, np.ndarray) else 1
        if isinstance(rows, slice) and self.shape:
            count = len(range(*rows.indices(len(self))))
        with self._stored(count * math.prod(self.shape[1:])) as stored:
            if not isinstance(rows, np.ndarray):
                return stored[rows]
            # one by one: HDF5 takes much longer for a list of rows
            return np.stack([stored[row] for row in rows.tolist()]) if len(rows) else stored[:0]

    @property
    def is_text(self) -> bool:
        """Whether rows are text."""
        return h5py.check_string_dtype(self.dtype) is not None

    @property
    def holds_bytes(self) -> bool:
        """Whether rows are bytes of variable length."""
        return h5py.check_vlen_dtype(self.dtype) == np.uint8

    def text(self) -> np.ndarray:
        """All rows as text."""
        with self._stored(math.prod(self.shape)) as stored:
            found = np.asarray(stored.asstr()[:])
            # in an array, every row takes as much as the longest
            self._require_room(4 * found.size * max(map(len, found.ravel()), default=0))
            return np.array(found, dtype=str)

    def attribute(self, name: str) -> Any:
        """The number or text of an attribute; None if there is none."""
        with self._stored(0) as stored:
            if name not in stored.attrs:
                return None
            self._require_readable(stored.attrs.get_id(name))
            found = stored.attrs[name]
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    @contextmanager
    def _stored(self, values: int) -> Iterator[h5py.Dataset]:
        """The open dataset, of which this number of values can be read."""
        with defer_interrupts(), _sentences(self.where, self.name):  # datasets are also closed inside
            if self._source is not (source := self._file.handle()):
                self._source, self._dataset = source, _find(self.where, source, self.name)
            self._require_readable(self._dataset.id)
            self._require_room(values * self.dtype.itemsize)
            yield self._dataset

    def _require_room(self, needed: int) -> None:
        """Refuse rows that do not fit into memory: a file may claim any shape."""
        if needed > CHUNK_BYTES:  # for a few rows, asking takes longer than reading
            require_memory(needed, f"{self.where}: {self.name}", "cut it into parts")

    def _require_readable(self, stored: h5py.h5d.DatasetID | h5py.h5a.AttrID) -> None:
        """Refuse variable-length rows that would crash the HDF5 library."""
        if not stored.dtype.hasobject:
            return
        known = h5py.h5t.py_create(stored.dtype, logical=True)
        if h5py.check_string_dtype(stored.dtype) is None and stored.get_type().encode() != known.encode():
            _refuse(self.where, self.name, "is of an unknown type", "copy or generate the file again")
        _, sizes = self._source.id.get_create_plist().get_sizes()
        require_heaps_that_end(self.where, sizes, _signature(self.where))
        if isinstance(stored, h5py.h5d.DatasetID) and not self._fits:
            _require_rows_that_fit(self.where, stored)
            self._fits = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None, "_dataset": None}


class Group(Mapping[str, "Group | Column"]):
    """Groups and columns of a file by name."""

    def __init__(self, file: File, group: h5py.Group) -> None:
        self._file, self._group = file, group

    @property
    def identity(self) -> object:
        """Equal for two paths to one group."""
        return self._group.id

    def __iter__(self) -> Iterator[str]:
        with _sentences(self._file.path, str(self._group.name).strip("/")):
            names = [str(name) for name in self._group]
        return iter(names)

    def __len__(self) -> int:
        return len(self._group)

    def __getitem__(self, name: str) -> Group | Column:
        found = _find(self._file.path, self._group, name)
        return Column(self._file, found) if isinstance(found, h5py.Dataset) else Group(self._file, found)


def _find(where: Path, found: Any, name: str) -> Any:
    """A group or column below a group; each step of its path is checked before it is taken."""
    for part in name.split("/"):
        with _sentences(where, name), defer_interrupts():
            link = found.get(part, getlink=True)
            if isinstance(link, h5py.ExternalLink | h5py.SoftLink):
                _refuse(where, name, "is a link to another place", "copy its target into the file")
            found = link and found[part]
        if found is None:
            raise KeyError(name)
    if isinstance(found, h5py.Dataset):
        with _sentences(where, name):
            if found.is_virtual or found.id.get_create_plist().get_external_count():
                _refuse(where, name, "lies in other files", "write its rows into this one")
            most = max(SMALL, LARGEST_RATIO * where.stat().st_size)
            if found.size is not None and found.size * found.dtype.itemsize > most:
                problem = f"is {found.dtype} {found.shape}, which a file of this size cannot hold"
                _refuse(where, name, problem, "write it again")
    elif not isinstance(found, h5py.Group):
        _refuse(where, name, "is neither a group nor a column", "leave it out")
    return found


def _signature(path: Path) -> tuple[int, ...]:
    """What changes with the content of a file."""
    with _sentences(path):
        found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


@contextmanager
def reading(path: Path, otherwise: str) -> Iterator[Group]:
    """The root group of a file, open until the block ends; errors recommend `otherwise`."""
    remedy = f"copy or generate it again, or {otherwise}"
    with _sentences(path, remedy=remedy), contextlib.closing(File(path, remedy)) as file:
        yield Group(file, file.handle())


def _sentences(where: Path, name: str = "", remedy: str = "copy or generate it again") -> AbstractContextManager[None]:
    """Turn all exceptions of the library into one sentence: for a damaged file it may raise anything."""
    if not name:
        return foreign_errors(f"{where} is not a complete HDF5 file", remedy)
    remedy = "the file is damaged, larger than memory, or compressed by a filter that `pip install hdf5plugin` provides"
    return foreign_errors(f"{where}: {name} cannot be read", remedy)


def _refuse(where: Path, name: str, problem: str, remedy: str) -> NoReturn:
    raise ReachcostError(f"{where}: {name} {problem}: {remedy}")
