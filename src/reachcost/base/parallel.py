"""Work in pieces of equal shape, each on one thread, several at a time.

The last bits of a matrix product depend on its shape and on how many threads share it. Pieces of equal shape on one
thread each give the same bits whatever the batch and the number of cores, and stay in the processor's cache.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")

SMALLEST, LARGEST = 32, 150
"""Candidates of a piece."""


def each(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Do some work on every piece, on as many threads as torch may use, and return the results in order.

    >>> each(lambda row: row.sum().item(), torch.ones(3, 4))
    [4.0, 4.0, 4.0]
    """
    pieces, gradients = list(pieces), torch.is_grad_enabled()
    threads = min(_allowed(), len(pieces))
    if threads < 2:
        with one_thread():
            return [work(piece) for piece in pieces]

    def share(first: int) -> list[Result]:
        with torch.set_grad_enabled(gradients), one_thread():  # both belong to a thread
            return [work(piece) for piece in pieces[first::threads]]

    others = [_helpers(threads - 1).submit(share, first) for first in range(1, threads)]
    shares = [share(0), *(other.result() for other in others)]
    return [shares[number % threads][number // threads] for number in range(len(pieces))]


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    """Threads that stay: starting one takes as long as a small piece."""
    return ThreadPoolExecutor(count, "reachcost")


os.register_at_fork(after_in_child=_helpers.cache_clear)  # a fork has the pool, but not its threads


def piece_of(count: int) -> int:
    """How many of a pool's candidates make a piece: a pool is cut in two, or in more pieces if it is large.

    That depends on the pool alone, so that its bits depend on nothing else; small pieces would waste matrix products.

    >>> [piece_of(count) for count in (2, 37, 75, 300, 1000)]
    [2, 37, 38, 150, 143]
    """
    number = max(1, min(2, count // SMALLEST), -(-count // LARGEST))
    return -(-count // number)


@contextmanager
def in_pieces() -> Iterator[None]:
    """Leave all threads to `each`: what torch would share among threads of its own is too small to be worth it.

    Its threads wait for their next task by spinning, on a core that a piece could use.
    """
    allowed, before = _allowed(), getattr(_THREADS, "allowed", None)
    _THREADS.allowed = allowed
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _THREADS.allowed = before
        torch.set_num_threads(1 if before else allowed)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small matrices are faster on one thread, and sums then do not depend on the number of cores."""
    threads, before = torch.get_num_threads(), getattr(_THREADS, "allowed", None)
    _THREADS.allowed = None
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _THREADS.allowed = before
        torch.set_num_threads(threads)


_THREADS = threading.local()
"""How many threads `each` may use, where torch itself was told to use one."""


def _allowed() -> int:
    return getattr(_THREADS, "allowed", None) or torch.get_num_threads()
