"""Large arrays: reading in chunks, so that temporaries stay small, and fingerprints of their content.

Pages of a memory map that were read count as memory of the process, and a few random rows touch them all.
`read_chunks` and `row_reader` therefore read the file instead, unless the map was written to.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, finalize

import numpy as np

from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_BYTES = 2**22
"""Bytes of an array that are processed together."""
SMALL = 128 * CHUNK_BYTES
"""Bytes up to which a memory map may be loaded into memory, where random rows are read faster."""
PAGES = Path("/proc/self/pagemap")
"""State of each page of this process on Linux, eight bytes each."""

_opened = WeakKeyDictionary[mmap.mmap, tuple[int, int]]()
"""Address of each map, and the descriptor of its file."""


def open_memory_map(path: Path) -> np.memmap:
    """The array of an `.npy` file as a memory map; writing to it changes memory, not the file."""
    array = np.lib.format.open_memmap(path, mode="c")
    if isinstance(array.base, mmap.mmap) and os.access(PAGES, os.R_OK):
        file = os.open(path, os.O_RDONLY)
        finalize(array.base, os.close, file)
        _opened[array.base] = array.ctypes.data - array.offset, file
    return array


def read_chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Consecutive rows of an array [R, ...], about CHUNK_BYTES at a time, for reading."""
    rows = max(1, CHUNK_BYTES // max(1, array.dtype.itemsize * math.prod(array.shape[1:])))
    for first in range(0, len(array), rows):
        piece = array[first : first + rows]
        if found := _in_file(piece):
            piece = np.empty_like(piece, subok=False)
            _fill(_bytes(piece), *found)
        yield piece


def row_reader(array: Tensor) -> Callable[[Tensor], Tensor]:
    """Function that reads rows [N] of an array [R, ...] -> [N, ...]."""
    plain = array.device.type == "cpu" and not array.requires_grad
    found = _in_file(array.numpy()) if plain else None
    if found is None or array.nbytes <= SMALL:
        return array.__getitem__
    file, begin = found
    size = array.element_size() * math.prod(array.shape[1:])

    def read(rows: Tensor) -> Tensor:
        taken = array.new_empty((len(rows), *array.shape[1:]))
        room = _bytes(taken.numpy())
        for place, row in enumerate(rows.tolist()):
            _fill(room[place * size : (place + 1) * size], file, begin + row * size)
        return taken

    return read


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _fill(room: memoryview, file: int, begin: int) -> None:
    if os.preadv(file, [room], begin) < len(room):
        raise ReachcostError("a file was truncated while it was read: do not change files in REACHCOST_CACHE")


def _in_file(array: np.ndarray) -> tuple[int, int] | None:
    """Descriptor and first byte of the file that holds an array unchanged; None if there is none."""
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:  # columns on disk are not arrays
        return None
    address = array.ctypes.data
    for opened, (begin, file) in list(_opened.items()):
        if begin <= address < begin + len(opened) and not _written(address, array.nbytes):
            return file, address - begin
    return None


def _written(address: int, size: int) -> bool:
    """Whether a page of a map was written to, and is now private to this process."""
    first, stop = address // mmap.PAGESIZE, -(-(address + size) // mmap.PAGESIZE)
    with PAGES.open("rb", buffering=0) as file:
        file.seek(8 * first)
        states = np.frombuffer(file.read(8 * (stop - first)), np.uint8)
    kinds = states[7::8] >> 5  # bits: present, swapped out, of a file
    return len(kinds) < stop - first or bool((kinds % 5).any())  # neither absent nor present and of a file


def fingerprint_arrays(*arrays: np.ndarray) -> str:
    """sha256 over dtype, shape and bytes of the arrays, in order, read piece by piece."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        for piece in read_chunks(array):
            digest.update(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
