"""Threads, work in pieces of equal shape, and recorded functions that run without Python's lock.

The last bits of a matrix product depend on its shape and on its number of threads. Pieces of equal shape, each on
one thread, give the same bits for any batch size and number of cores. They also fit into the processor's cache.
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
"""Minimum and maximum number of candidates of a piece."""


def parallel_map(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Map a function over pieces, on the threads that torch may use; results are in order."""
    pieces = list(pieces)
    threads = min(_allowed(), len(pieces))
    with one_thread():  # until all are done, as new threads inherit the number
        if threads < 2:
            return [work(piece) for piece in pieces]
        modes, failed = _modes(), threading.Event()

        def share(first: int) -> list[Result]:
            try:
                with modes():
                    return [work(piece) for piece in pieces[first::threads] if not failed.is_set()]
            except BaseException:
                failed.set()  # the others stop
                raise

        others = [_helpers(threads - 1).submit(share, first) for first in range(1, threads)]
        try:
            own = share(0)
        finally:
            wait(others)  # no work is left in the background
        shares = [own, *(other.result() for other in others)]
    return [shares[number % threads][number // threads] for number in range(len(pieces))]


def _modes() -> Callable[[], ExitStack]:
    """Function that enters this thread's modes of torch in another thread: gradients, inference, autocast."""
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
    """Threads that are kept, with one torch thread each: starting one takes as long as a small piece."""
    return ThreadPoolExecutor(count, "reachcost", lambda: torch.set_num_threads(1))


os.register_at_fork(after_in_child=_helpers.cache_clear)  # a fork has the pool, but not its threads


def piece_size(count: int) -> int:
    """Number of candidates of a piece: a pool is cut in two, or in more pieces if it is large.

    It depends on the pool alone, so that results do, too; small pieces would slow down matrix products.

    >>> [piece_size(count) for count in (2, 37, 75, 300, 1000)]
    [2, 37, 38, 150, 143]
    """
    number = max(1, min(2, count // SMALLEST), -(-count // LARGEST))
    return -(-count // number)


def split_pools(pools: Tensor) -> list[tuple[int, Tensor]]:
    """Pools [B, S, ...] as pieces of equal shape [size, ...], padded, each with its index in B."""
    count = pools.shape[1]
    size = piece_size(count)
    filled = functional.pad(pools, (0, 0) * (pools.ndim - 2) + (0, -count % size)).unflatten(1, (-1, size))
    return [(number, piece) for number, pool in enumerate(filled) for piece in pool]


def join_pools(found: list[Tensor], pools: Tensor) -> Tensor:
    """Results [size, ...] of the pieces of pools [B, S, ...] as one tensor [B, S, ...]."""
    return torch.cat(found).unflatten(0, (len(pools), -1))[:, : pools.shape[1]]


@contextmanager
def reserve_threads() -> Iterator[None]:
    """Leave all threads to `parallel_map`: torch's own threads would spin on cores that pieces could use."""
    with _threads(1, _allowed()):
        yield


@contextmanager
def all_threads() -> Iterator[None]:
    """Let torch use all threads inside `reserve_threads`, for work that is not cut into pieces."""
    with _threads(_allowed(), _reserved()):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: small matrices are faster, and sums do not depend on the number of cores."""
    with _threads(1, None):
        yield


_RESERVED = threading.local()
"""`count`: number of threads of `parallel_map` while torch itself uses one."""


@contextmanager
def _threads(of_torch: int, reserved: int | None) -> Iterator[None]:
    before = torch.get_num_threads(), _reserved()
    torch.set_num_threads(of_torch)
    _RESERVED.count = reserved
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        _RESERVED.count = before[1]


def _reserved() -> int | None:
    return getattr(_RESERVED, "count", None)


def _allowed() -> int:
    return _reserved() or torch.get_num_threads()


Function = Callable[..., Tensor]
MOST = 64
"""Maximum number of recordings that are kept."""


class Traced:
    """A function with constant weights, recorded once for each `key` and shape of its arguments.

    If it cannot be recorded, if the recording gives other bits, or if gradients are required, it is called directly.
    """

    def __init__(self) -> None:
        self._recordings: dict[Hashable, Function | None] = {}

    def __reduce__(self) -> tuple[type[Traced], tuple[()]]:
        return Traced, ()  # recordings cannot be copied

    def recorded(self, key: Hashable, function: Function, *example: Tensor) -> Function:
        """The recording of a function, or the function itself, for arguments with the shapes of the example."""
        watched = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch._C._len_torch_dispatch_stack()
        if watched or any(tensor.device.type != "cpu" for tensor in example):
            return function
        of_shape = key, tuple((tensor.shape, tensor.dtype) for tensor in example)
        if of_shape not in self._recordings:
            if len(self._recordings) >= MOST:
                self._recordings.clear()
            self._recordings[of_shape] = _record(function, example)
        return self._recordings[of_shape] or function


def _record(function: Function, example: tuple[Tensor, ...]) -> Function | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecation, and of shapes that become constants
        try:
            recording: Any = torch.jit.trace(function, example, check_trace=False)
        except (RuntimeError, AttributeError):  # not supported by this version or these weights
            return None
    vars(recording).clear()  # it would keep the function, and with it the module, alive
    expected = function(*example)
    same = all(torch.equal(recording(*example), expected) for _ in range(3))  # torch optimises the first replays
    return recording if same else None
