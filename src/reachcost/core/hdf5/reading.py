"""Reading HDF5 from strangers.

Its library follows a file into others, believes any shape, says what is wrong in exceptions of many kinds, and its
objects lose interrupts. Whoever reads HDF5 does so by what is here.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np

from reachcost.core.chunks import PIECE
from reachcost.core.hdf5.heaps import require_heaps_that_end, require_rows_that_fit
from reachcost.core.interrupts import interrupts_later
from reachcost.core.memory import require_memory
from reachcost.errors import ReachcostError

logging.getLogger("hdf5plugin").setLevel(logging.CRITICAL)  # of a filter that is missing, those hear who need it
with contextlib.suppress(ImportError):  # its filters read the compressed files that some projects release
    import hdf5plugin  # noqa: F401

BELIEVABLE = 10_000
"""Times the size of its file that a column may take in memory; blank frames are compressed to a thousandth."""
SMALL = 2**30
"""Bytes that any column may take."""


class Column:
    """Rows of numbers or text [R, ...] in one file, read by slices or row numbers."""

    def __init__(self, where: Path, dataset: h5py.Dataset) -> None:
        self.where, self._dataset = where, dataset
        self.name = _name(dataset)
        self.shape: tuple[int, ...] = dataset.shape or ()
        self.dtype: np.dtype = dataset.dtype
        self.ndim = len(self.shape)
        self._fits = False

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        with _sentences(self.where, self.name), interrupts_later():
            self._require_readable(self._dataset.id)
            self._require_room(self._count(rows) * math.prod(self.shape[1:]) * self.dtype.itemsize)
            if not isinstance(rows, np.ndarray):
                return self._dataset[rows]
            # One by one: HDF5 takes far longer for a list of rows than for each of them.
            return np.stack([self._dataset[row] for row in rows.tolist()]) if len(rows) else self._dataset[:0]

    @property
    def is_text(self) -> bool:
        """Whether rows are text."""
        return h5py.check_string_dtype(self.dtype) is not None

    @property
    def holds_bytes(self) -> bool:
        """Whether rows are bytes, of several lengths."""
        return h5py.check_vlen_dtype(self.dtype) == np.uint8

    def text(self) -> np.ndarray:
        """All rows as text."""
        with _sentences(self.where, self.name), interrupts_later():
            self._require_readable(self._dataset.id)
            self._require_room(math.prod(self.shape) * self.dtype.itemsize)
            found = np.asarray(self._dataset.asstr()[:])
            # As an array, every row takes as much as the longest.
            self._require_room(4 * found.size * max(map(len, found.ravel()), default=0))
            return np.array(found, dtype=str)

    def remark(self, name: str) -> Any:
        """What an attribute of the column says, a number or text; None if there is none."""
        with _sentences(self.where, self.name):
            if name not in self._dataset.attrs:
                return None
            self._require_readable(self._dataset.attrs.get_id(name))
            found = self._dataset.attrs[name]
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    def _count(self, rows: Any) -> int:
        """How many rows those are: a slice, row numbers, or one."""
        if isinstance(rows, slice):
            return len(range(*rows.indices(len(self)))) if self.shape else 1
        return len(rows) if isinstance(rows, np.ndarray) else 1

    def _require_room(self, needed: int) -> None:
        """Refuse what memory has no room for: a shape is believed before there is anything behind it."""
        if needed > PIECE:  # asking takes longer than to read a few rows
            require_memory(needed, f"{self.where}: {self.name}", "cut it into parts")

    def _require_readable(self, stored: h5py.h5d.DatasetID | h5py.h5a.AttrID) -> None:
        """Refuse rows of several lengths that the library of HDF5 would not survive."""
        if not stored.dtype.hasobject:
            return
        kind = stored.get_type()
        usual = h5py.h5t.py_create(stored.dtype, logical=True)
        if h5py.check_string_dtype(stored.dtype) is None and kind.encode() != usual.encode():
            _refuse(self.where, self.name, "is of no known type", "copy or generate the file again")
        _, sizes = self._dataset.file.id.get_create_plist().get_sizes()
        require_heaps_that_end(self.where, sizes)
        if isinstance(stored, h5py.h5d.DatasetID) and not self._fits:
            require_rows_that_fit(self.where, stored)
            self._fits = True


class Group(Mapping[str, "Group | Column"]):
    """Groups and columns by name, that lie in this file and nowhere else."""

    def __init__(self, where: Path, group: h5py.Group) -> None:
        self.where, self._group = where, group

    @property
    def identity(self) -> object:
        """What tells it from other groups, whichever way it was come to."""
        return self._group.id

    def __iter__(self) -> Iterator[str]:
        with _sentences(self.where, _name(self._group)):
            names = [str(name) for name in self._group]
        return iter(names)

    def __len__(self) -> int:
        return len(self._group)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._group.get(name, getlink=True) is not None

    def __getitem__(self, name: str) -> Group | Column:
        found: Any = self._group
        for part in name.split("/"):  # each step of the way is looked at before it is taken
            with _sentences(self.where, name), interrupts_later():
                link = found.get(part, getlink=True)
                if isinstance(link, h5py.ExternalLink | h5py.SoftLink):
                    _refuse(self.where, name, "is a link to somewhere else", "write what it leads to into the file")
                found = link and found[part]
            if found is None:
                raise KeyError(name)
        if isinstance(found, h5py.Group):
            return Group(self.where, found)
        if not isinstance(found, h5py.Dataset):
            _refuse(self.where, name, "is neither a group nor a column", "leave it out")
        return Column(self.where, self._own(found))

    def _own(self, dataset: h5py.Dataset) -> h5py.Dataset:
        """The dataset, once it is found to lie in this file, and to be no larger than that can hold."""
        with _sentences(self.where, _name(dataset)):
            if dataset.is_virtual or dataset.id.get_create_plist().get_external_count():
                _refuse(self.where, _name(dataset), "lies in other files", "write its rows into this one")
            most = max(SMALL, BELIEVABLE * self.where.stat().st_size)
            if dataset.size is not None and dataset.size * dataset.dtype.itemsize > most:
                _refuse(
                    self.where,
                    _name(dataset),
                    f"is {dataset.dtype} {dataset.shape}, which a file of this size cannot hold",
                    "write it again",
                )
        return dataset


class OnDisk:
    """A file that every process opens anew, so that it can be pickled, and that must stay the one it was."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._signature()
        self._opened: tuple[int, h5py.File, dict[str, Column]] | None = None

    def read(self, name: str, rows: Any) -> np.ndarray:
        """Some rows of a column, by its full name."""
        with interrupts_later():  # what is opened for it is given up before its end, too
            return self._column(name)[rows]

    def _column(self, name: str) -> Column:
        if self._opened is None or self._opened[0] != os.getpid():
            if self._signature() != self._seen:
                raise ReachcostError(f"{self.path} was changed since it was opened: open it again")
            with _sentences(self.path):
                self._opened = os.getpid(), h5py.File(self.path, "r"), {}
        _, file, columns = self._opened
        if name not in columns:
            found = Group(self.path, file)[name]
            if not isinstance(found, Column):
                _refuse(self.path, name, "is not a column", "write it again")
            columns[name] = found
        return columns[name]

    def _signature(self) -> tuple[int, ...]:
        """What changes when somebody writes to a file, or puts another in its place."""
        with _sentences(self.path):
            found = self.path.stat()
        return found.st_size, found.st_mtime_ns, found.st_ino

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


@contextmanager
def reading(path: Path, otherwise: str) -> Iterator[Group]:
    """What a file holds, while the block lasts; with what to give otherwise, if it is no such file."""
    with _sentences(path, remedy=f"copy or generate it again, or {otherwise}"):
        with interrupts_later():
            file = h5py.File(path, "r")
        with contextlib.closing(file):
            yield Group(path, file)


@contextmanager
def _sentences(where: Path, name: str = "", remedy: str = "copy or generate it again") -> Iterator[None]:
    """Turn whatever the library raises about a file into one sentence."""
    try:
        yield
    except ReachcostError:
        raise
    except PermissionError as error:
        raise ReachcostError(f"{where} may not be read: change its permissions") from error
    except MemoryError as error:
        raise ReachcostError(
            f"{where}: {name or 'what it holds'} does not fit into memory: cut it into parts"
        ) from error
    except Exception as error:  # a damaged file can make it raise anything
        reason = str(error).partition("\n")[0]
        if not name:
            raise ReachcostError(f"{where} is not a whole HDF5 file ({reason}): {remedy}") from error
        raise ReachcostError(
            f"{where}: {name} cannot be read ({reason}): the file is damaged, or compressed by a filter that "
            "`pip install hdf5plugin` brings"
        ) from error


def _refuse(where: Path, name: str, problem: str, remedy: str) -> NoReturn:
    raise ReachcostError(f"{where}: {name} {problem}: {remedy}")


def _name(part: h5py.Group | h5py.Dataset) -> str:
    return str(part.name).strip("/")
