"""Writing HDF5 on disks that may be full."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from reachcost.core.interrupts import interrupts_later

FORMAT = ("v110", "v110")
"""The oldest in which HDF5 keeps a checksum of all that it notes beside the numbers; version 1.10 and later read it."""


@contextmanager
def writing(path: Path) -> Iterator[NewFile]:
    """A new file, whole once the block has ended; in place of what is at the path."""
    disk, new = _Disk(path), None
    try:
        with interrupts_later():
            new = NewFile(h5py.File(disk, "w", libver=FORMAT), disk)
        yield new
    finally:
        with interrupts_later():
            if new is not None:
                new.close()
            disk.close()
    disk.require_written()


class NewFile:
    """A file of columns that is being written; a disk that takes no more is an error at once.

    It holds on to its columns: one that is given up is written to the disk, which no interrupt may disturb.
    """

    def __init__(self, file: h5py.File, disk: _Disk) -> None:
        self._file, self._disk = file, disk
        self._columns: list[h5py.Dataset] = []

    def close(self) -> None:
        """Write what is not written yet."""
        self._file.close()

    def add(self, name: str, values: np.ndarray, **remarks: int | str) -> None:
        """Write a column, to which rows can be added later, with attributes beside it.

        All text is of fixed length: what is not lies in a heap, which has no checksum.
        """
        if values.dtype.kind == "U":
            encoded = np.char.encode(values, "utf-8")
            values = encoded.astype(h5py.string_dtype(length=max(1, encoded.dtype.itemsize)))
        with interrupts_later():
            dataset = self._file.create_dataset(name, data=values, maxshape=(None, *values.shape[1:]), chunks=True)
            self._columns.append(dataset)
            for (
                key,
                remark,
            ) in remarks.items():  # text of one length, which lies under the checksum of the column's head
                dataset.attrs[key] = np.bytes_(remark) if isinstance(remark, str) else remark
        self._disk.require_written()

    def add_frames(self, name: str, rows: int, shape: tuple[int, ...]) -> Callable[[slice, np.ndarray], None]:
        """Make a column of frames uint8 [R, *shape], and return what writes some of them.

        Each is compressed by itself, with a checksum that is compared whenever it is read.
        """
        with interrupts_later():
            dataset = self._file.create_dataset(
                name,
                (rows, *shape),
                np.uint8,
                maxshape=(None, *shape),
                chunks=(1, *shape),
                compression="lzf",
                fletcher32=True,
            )
            self._columns.append(dataset)

        def write(some: slice, frames: np.ndarray) -> None:
            with interrupts_later():
                dataset[some] = frames
            self._disk.require_written()

        return write


class _Disk:
    """A file that keeps to itself what the system refuses: told of it, the library of HDF5 crashes at its end."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        self._at = 0
        self._refused: OSError | None = None

    def require_written(self) -> None:
        """Raise what was refused."""
        if self._refused is not None:
            raise self._refused

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, which may lie behind the end."""
        self._at = offset + (0, self._at, os.fstat(self._file).st_size)[whence]
        return self._at

    def tell(self) -> int:
        """Where the next byte comes from or goes to."""
        return self._at

    def readinto(self, room: memoryview) -> int:
        """Fill some room; with zeros, where there is nothing."""
        found = os.preadv(self._file, [room], self._at)
        memoryview(room).cast("B")[found:] = bytes(len(room) - found)
        self._at += len(room)
        return len(room)

    def read(self, size: int) -> bytes:
        """So many bytes."""
        room = bytearray(size)
        self.readinto(memoryview(room))
        return bytes(room)

    def write(self, data: memoryview) -> int:
        """Write all bytes, unless something was refused before."""
        left = memoryview(data).cast("B")
        self._at += len(left)
        while len(left) and self._refused is None:
            try:
                written = os.pwrite(self._file, left, self._at - len(left))
            except OSError as error:
                self._refused = error
            else:
                left = left[written:]
        return len(data)

    def truncate(self, size: int) -> int:
        """Make the file so long."""
        if self._refused is None:
            try:
                os.ftruncate(self._file, size)
            except OSError as error:
                self._refused = error
        return size

    def flush(self) -> None:
        """Nothing is kept back."""
