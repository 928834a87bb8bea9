"""Arrays of any length, worked on piece by piece, so that temporaries are as large as a piece and not as the array.

Arrays in files are memory maps. Pages that were read stay with the process until memory is short, and count as its own
meanwhile; here they are given back once there are many. The kernel still has them, so reading them again costs little.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

PIECE = 2**22
"""Bytes of an array that are worked on together."""
HELD = 128 * PIECE
"""Bytes read from memory maps that stay with the process."""
ROWS = 1024
"""Rows that are gathered together: for each, the kernel maps 64 KiB around it."""
PAGES, STATUS = Path("/proc/self/pagemap"), Path("/proc/self/statm")
"""What Linux says of each page, and of how many there are."""

Array = TypeVar("Array", np.ndarray, Tensor)


def pieces(array: Array) -> Iterator[Array]:
    """An array [R, ...] as views of consecutive rows, about PIECE bytes each.

    >>> [len(piece) for piece in pieces(np.zeros((5, PIECE // 4), np.int16))]
    [2, 2, 1]
    """
    rows = max(1, PIECE // max(1, array.dtype.itemsize * math.prod(array.shape[1:])))
    for first in range(0, len(array), rows):
        yield array[first : first + rows]
        _give_back()


def take(array: Tensor, rows: Tensor) -> Tensor:
    """Some rows [N] of an array [R, ...] -> [N, ...].

    >>> take(torch.arange(10)[:, None], torch.tensor([7, 2])).tolist()
    [[7], [2]]
    """
    taken = array.new_empty((len(rows), *array.shape[1:]))
    for part, wanted in zip(taken.split(ROWS), rows.split(ROWS), strict=True):
        torch.index_select(array, 0, wanted, out=part)
        _give_back()
    return taken


def open_map(path: Path) -> np.memmap:
    """The array of an `.npy` file as a memory map; what is written into it stays in memory."""
    array = np.lib.format.open_memmap(path, mode="c")
    if isinstance(array.base, mmap.mmap) and os.access(PAGES, os.R_OK):
        _maps.opened[array.ctypes.data - array.offset % mmap.ALLOCATIONGRANULARITY] = array.base
    return array


class _Maps:
    """Maps that are open, by address, and the pages of files that were with the process after giving back."""

    def __init__(self) -> None:
        self.opened = WeakValueDictionary[int, mmap.mmap]()
        self.floor = 0


_maps = _Maps()


def _give_back() -> None:
    """Give back the pages of all maps if HELD bytes were read since the last time."""
    if not _maps.opened:
        return
    now = _pages_of_files()
    _maps.floor = min(_maps.floor, now)
    if (now - _maps.floor) * mmap.PAGESIZE > HELD:
        for address, opened in list(_maps.opened.items()):
            for first in range(0, len(opened), HELD):
                size = min(HELD, len(opened) - first)
                if not _written(address + first, size):
                    opened.madvise(mmap.MADV_DONTNEED, first, size)
        _maps.floor = _pages_of_files()


def _pages_of_files() -> int:
    return int(STATUS.read_bytes().split()[2])


def _written(address: int, size: int) -> bool:
    """Whether a page of a map was written to: it is in no file then, and would be lost."""
    pages = -(-size // mmap.PAGESIZE)
    with PAGES.open("rb", buffering=0) as file:
        file.seek(address // mmap.PAGESIZE * 8)
        kinds = np.frombuffer(file.read(pages * 8), np.uint64) >> np.uint64(61)
    return len(kinds) < pages or not np.isin(kinds, (0, 5)).all()  # nothing there, or there and of a file
