"""Work in pieces of equal shape, each on one thread, several at a time.

The last bits of a matrix product depend on its shape and on how many threads share it. Pieces of equal shape on one
thread each give the same bits whatever the batch and the number of cores, and stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def each(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Do some work on every piece, on as many threads as torch may use, and return the results in order.

    >>> each(lambda row: row.sum().item(), torch.ones(3, 4))
    [4.0, 4.0, 4.0]
    """
    threads, gradients = torch.get_num_threads(), torch.is_grad_enabled()

    def alone(piece: Piece) -> Result:
        with torch.set_grad_enabled(gradients):  # the mode belongs to a thread
            return work(piece)

    with one_thread():
        if threads == 1:
            return [alone(piece) for piece in pieces]
        # The number belongs to a thread, too: one that starts anew may still have the old one.
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(alone, pieces))


@contextmanager
def one_thread() -> Iterator[None]:
    """Small matrices are faster on one thread, and sums then do not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
