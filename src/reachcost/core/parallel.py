"""Work in pieces of equal shape, each on one thread, several at a time.

The last bits of a matrix product depend on its shape and on how many threads share it. Pieces of equal shape on one
thread each give the same bits whatever the batch and the number of cores, and stay in the processor's cache.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

Piece = TypeVar("Piece")
Result = TypeVar("Result")

SMALLEST, LARGEST = 32, 150
"""Candidates of a piece."""


def each(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Do some work on every piece, on as many threads as torch may use, and return the results in order.

    >>> each(lambda row: row.sum().item(), torch.ones(3, 4))
    [4.0, 4.0, 4.0]
    """
    pieces = list(pieces)
    threads = min(_allowed(), len(pieces))
    with one_thread():  # until all are done: the number of threads that this one restores is that of new threads, too
        if threads < 2:
            return [work(piece) for piece in pieces]
        modes, failed = _modes(), threading.Event()

        def share(first: int) -> list[Result]:
            results = []
            with modes():
                for piece in pieces[first::threads]:
                    if failed.is_set():
                        break
                    try:
                        results.append(work(piece))
                    except BaseException:
                        failed.set()  # the others need not go on
                        raise
            return results

        others = [_helpers(threads - 1).submit(share, first) for first in range(1, threads)]
        try:
            own = share(0)
        finally:
            wait(others)  # nothing works on in the background
        shares = [own, *(other.result() for other in others)]
    return [shares[number % threads][number // threads] for number in range(len(pieces))]


def _modes() -> Callable[[], ExitStack]:
    """What torch keeps for each thread by itself, to be entered in another: gradients, inference, autocast."""
    inference, gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    cast = {kind: torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)}

    def enter() -> ExitStack:
        stack = ExitStack()
        stack.enter_context(torch.inference_mode(inference))
        stack.enter_context(torch.set_grad_enabled(gradients))
        for kind, dtype in cast.items():
            stack.enter_context(torch.autocast(kind, dtype))
        return stack

    return enter


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    """Threads that stay, with one thread of torch each: starting one takes as long as a small piece."""
    return ThreadPoolExecutor(count, "reachcost", lambda: torch.set_num_threads(1))


os.register_at_fork(after_in_child=_helpers.cache_clear)  # a fork has the pool, but not its threads


def piece_of(count: int) -> int:
    """How many of a pool's candidates make a piece: a pool is cut in two, or in more pieces if it is large.

    That depends on the pool alone, so that its bits depend on nothing else; small pieces would waste matrix products.

    >>> [piece_of(count) for count in (2, 37, 75, 300, 1000)]
    [2, 37, 38, 150, 143]
    """
    number = max(1, min(2, count // SMALLEST), -(-count // LARGEST))
    return -(-count // number)


def cut(pools: Tensor) -> list[tuple[int, Tensor]]:
    """Pools [B, S, ...] in pieces of equal shape [size, ...], the last of a pool filled up, each with its number in B.

    >>> [(number, len(piece)) for number, piece in cut(torch.zeros(2, 301, 4))][:3]
    [(0, 101), (0, 101), (0, 101)]
    """
    count = pools.shape[1]
    size = piece_of(count)
    filled = functional.pad(pools, (0, 0) * (pools.ndim - 2) + (0, -count % size)).unflatten(1, (-1, size))
    return [(number, piece) for number, pool in enumerate(filled) for piece in pool]


def whole(found: list[Tensor], pools: Tensor) -> Tensor:
    """What was found for the pieces of pools [B, S, ...], each [size, ...], as one tensor [B, S, ...]."""
    return torch.cat(found).unflatten(0, (len(pools), -1))[:, : pools.shape[1]]


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
def every_thread() -> Iterator[None]:
    """Give torch back, inside `in_pieces`, what it had before: for work that does not cut itself into pieces."""
    threads = torch.get_num_threads()
    torch.set_num_threads(_allowed())
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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
