"""Rows of several lengths lie in heaps, which have no checksum; a damaged one makes the library of HDF5 run forever.

A heap is a line of objects, each of which tells how long it is. One that is of no length at all is never passed. A row
tells the length of its object, too, and memory for that is taken before anybody compares the two. Heaps that lie in
each other would be walked through again and again.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import h5py
import numpy as np

from reachcost.errors import ReachcostError

HEAP = b"GCOL\x01\0\0\0"
"""How one begins: its name, its version and room; its size follows."""
HEADER = 16
"""Bytes before the first object, and of an object before its content: number [2], references [2], room [4], size."""


def require_heaps_that_end(path: Path, sizes: int) -> None:
    """Refuse a file with a heap that does not end, or with heaps that hold more than lies in it.

    Args:
        path: The file.
        sizes: Bytes of a size in it.
    """
    found = path.stat()
    if (place := _endless(path, sizes, (found.st_size, found.st_mtime_ns, found.st_ino))) is not None:
        raise ReachcostError(f"{path}: its heap at byte {place} is damaged: copy or generate the file again")


def require_rows_that_fit(path: Path, dataset: h5py.h5d.DatasetID) -> None:
    """Refuse rows of several lengths of which one is longer than the file, as far as they lie there uncompressed."""
    width, most = dataset.get_type().get_size(), path.stat().st_size
    length = np.dtype({"names": ["length"], "formats": ["<u4"], "offsets": [0], "itemsize": width})
    with path.open("rb") as file:
        for begin, size in _stretches(dataset):
            file.seek(begin)
            rows = np.frombuffer(file.read(size // width * width), length)["length"]
            if len(rows) and rows.max() > most:
                raise ReachcostError(f"{path}: a row claims {rows.max():,} bytes: copy or generate the file again")


def _stretches(dataset: h5py.h5d.DatasetID) -> Iterator[tuple[int, int]]:
    """Where the rows of a column lie in its file: first byte, and how many."""
    layout = dataset.get_create_plist()
    if layout.get_layout() == h5py.h5d.CHUNKED and not layout.get_nfilters():
        chunks = (dataset.get_chunk_info(number) for number in range(dataset.get_num_chunks()))
        yield from ((chunk.byte_offset, chunk.size) for chunk in chunks if chunk.byte_offset is not None)
    elif (begin := dataset.get_offset()) is not None:
        yield begin, dataset.get_storage_size()


@lru_cache(maxsize=64)
def _endless(path: Path, sizes: int, seen: tuple[int, ...]) -> int | None:
    """Where a heap begins without end or within others; asked once of a file as long as it stays as it was seen."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            left = len(data) // HEADER  # of heaps and objects, as none is smaller
            for place in _heaps(data):
                left -= 1 + _objects(data, place, sizes, left)
                if left < 0:
                    return place
            return None


def _heaps(data: mmap.mmap) -> Iterator[int]:
    place = data.find(HEAP)
    while place >= 0:
        yield place
        place = data.find(HEAP, place + 1)


def _objects(data: mmap.mmap, place: int, sizes: int, most: int) -> int:
    """How many objects a heap has; if it has no end, or more than `most`, then one more than these."""

    def number(at: int, width: int) -> int:
        return int.from_bytes(data[at : at + width], "little")

    at, stop, count = place + HEADER, min(len(data), place + number(place + 8, sizes)), 0
    while at + HEADER <= stop and count <= most:
        size = number(at + 8, sizes)
        step = size if number(at, 2) == 0 else HEADER + (size + 7) // 8 * 8  # the first is what is free behind it
        if step % 2**64 == 0:
            return most + 1
        at, count = at + step, count + 1
    return count
