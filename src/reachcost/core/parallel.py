"""Work on several threads, in pieces of equal shape, and recorded functions that run without Python's lock.

The last bits of a matrix product depend on its shape and on how many threads share it. Pieces of equal shape on one
thread each give the same bits for any batch size and number of cores, and stay in the processor's cache.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

Piece = TypeVar("Piece")
Result = TypeVar("Result")

SMALLEST, LARGEST = 32, 150
"""Candidates of a piece."""


def parallel_map(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Do some work on every piece, on as many threads as torch may use, and return the results in order.

    >>> parallel_map(lambda row: row.sum().item(), torch.ones(3, 4))
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


def piece_size(count: int) -> int:
    """How many of a pool's candidates make a piece: a pool is cut in two, or in more pieces if it is large.

    That depends on the pool alone, so that its bits depend on nothing else; small pieces would waste matrix products.

    >>> [piece_size(count) for count in (2, 37, 75, 300, 1000)]
    [2, 37, 38, 150, 143]
    """
    number = max(1, min(2, count // SMALLEST), -(-count // LARGEST))
    return -(-count // number)


def split_pools(pools: Tensor) -> list[tuple[int, Tensor]]:
    """Pools [B, S, ...] in pieces of equal shape [size, ...], the last of a pool filled up, each with its number in B.

    >>> [(number, len(piece)) for number, piece in split_pools(torch.zeros(2, 301, 4))][:3]
    [(0, 101), (0, 101), (0, 101)]
    """
    count = pools.shape[1]
    size = piece_size(count)
    filled = functional.pad(pools, (0, 0) * (pools.ndim - 2) + (0, -count % size)).unflatten(1, (-1, size))
    return [(number, piece) for number, pool in enumerate(filled) for piece in pool]


def join_pools(found: list[Tensor], pools: Tensor) -> Tensor:
    """What was found for the pieces of pools [B, S, ...], each [size, ...], as one tensor [B, S, ...]."""
    return torch.cat(found).unflatten(0, (len(pools), -1))[:, : pools.shape[1]]


@contextmanager
def reserve_threads() -> Iterator[None]:
    """Leave all threads to `parallel_map`: what torch would share among threads of its own is too small to be worth it.

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
def all_threads() -> Iterator[None]:
    """Give torch back, inside `reserve_threads`, what it had before: for work that does not cut itself into pieces."""
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
"""How many threads `parallel_map` may use, where torch itself was told to use one."""


def _allowed() -> int:
    return getattr(_THREADS, "allowed", None) or torch.get_num_threads()


Function = Callable[..., Tensor]
CHECKED = 3
"""Times that a new recording is replayed and compared: torch rearranges it while it is replayed first."""
MOST = 64
"""Recordings of a function that are kept."""


class Traced:
    """A function whose weights do not change, recorded once for each `key` and shape of its arguments.

    Where it cannot be recorded, or a recording does not give the same bits, and wherever gradients are asked for, it is
    called as it is.

    >>> double = Traced()
    >>> with torch.no_grad():
    ...     found = double.recorded("x 2", lambda x: 2 * x, torch.ones(3))(torch.ones(3))
    >>> found
    tensor([2., 2., 2.])
    """

    def __init__(self) -> None:
        self._recordings: dict[Hashable, Function | None] = {}

    def __reduce__(self) -> tuple[type[Traced], tuple[()]]:
        return Traced, ()  # recordings cannot be copied, and a copy makes its own

    def recorded(self, key: Hashable, function: Function, *example: Tensor) -> Function:
        """What to call in place of the function, with arguments of the shapes of the example."""
        if not _replayable(example):
            return function
        of_shape = key, tuple((tensor.shape, tensor.dtype) for tensor in example)
        if of_shape not in self._recordings:
            if len(self._recordings) >= MOST:
                self._recordings.clear()
            self._recordings[of_shape] = _record(function, example)
        return self._recordings[of_shape] or function


def _replayable(example: tuple[Tensor, ...]) -> bool:
    """On a processor, without gradients, and with nothing else that looks at single operations."""
    watched = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch._C._len_torch_dispatch_stack()
    return not watched and all(tensor.device.type == "cpu" for tensor in example)


def _record(function: Function, example: tuple[Tensor, ...]) -> Function | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated, and shapes become constants, which are those of the key
        try:
            recording: Any = torch.jit.trace(function, example, check_trace=False)
        except (RuntimeError, AttributeError):  # no such thing in this version, or with these weights
            return None
    vars(recording).clear()  # the function itself, and with it the module, would never be given up
    expected = function(*example)
    same = all(torch.equal(recording(*example), expected) for _ in range(CHECKED))
    return recording if same else None
