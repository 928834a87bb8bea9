"""A comparison: some work of reachcost, the same work of a peer, and how they are timed."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError

Against = Literal["swm"]
"""Extras that bring peers."""
SIZE = 2048
"""Rows and columns of the matrices whose product measures the machine's peak."""
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    work: Callable[[], object]
    """What is timed; its result is compared with that of the other side if they must agree."""
    amount: float = 1
    """Number of units (plans, frames) that it makes."""
    threads: int = 1
    """Threads that torch may use."""


@dataclass(frozen=True)
class Sides:
    """Both sides, ready to be timed."""

    ours: Side
    peer: Side | float
    """The peer, or a target in seconds per unit."""
    within: float | None = None
    """Maximum difference between the tensors that both sides return; None compares nothing."""
    counted: bool = False
    """Whether to report the share of the machine's peak that our matrix products reach."""


@dataclass(frozen=True)
class Entry:
    """A row of the record."""

    name: str
    """Its name in the record and for `--only`."""
    says: str
    """What is measured against what."""
    prepare: Callable[[], Sides]
    """Makes both sides: models, logs, frames. It is not timed."""
    unit: str
    """What the seconds are per."""
    target: float | None = None
    """Minimum ratio of the peer's time to ours."""
    repeats: int = 3
    """Number of times that each side is measured, in turn."""
    against: Against | None = None
    """The extra that brings the peer."""


def in_threads(threads: int) -> str:
    """The number of threads in a name.

    >>> in_threads(1), in_threads(2)
    ('1 thread', '2 threads')
    """
    return f"{threads} thread{'s' if threads > 1 else ''}"


class Disagreement(ReachcostError):
    """Both sides of a comparison do different things, so that their times mean nothing."""


@dataclass(frozen=True)
class Measured:
    """Times of a comparison, repeat by repeat."""

    ours: list[float]
    """Seconds per unit."""
    peer: list[float]
    """Seconds per unit."""
    threads: int
    """Of our side."""
    operations: int | None
    """Floating-point operations of our matrix products per unit, if counted."""

    @property
    def ratios(self) -> list[float]:
        """The peer's time divided by ours, in each repeat."""
        return [theirs / own for own, theirs in zip(self.ours, self.peer, strict=True)]

    @property
    def ratio(self) -> float:
        """Ratio of the fastest repeats, as other work of the machine only slows."""
        return min(self.peer) / min(self.ours)


def measure(entry: Entry, repeats: int, progress: Progress) -> Measured:
    """Time both sides in turn, after each has run once; raise `Disagreement` if they return different tensors."""
    sides = entry.prepare()
    _require_agreement(entry, sides)
    operations = None
    if sides.counted:
        operations = round(count_operations(sides.ours.work) / sides.ours.amount)
    measured = Measured([], [], sides.ours.threads, operations)
    progress.step(entry.name)
    for _ in progress.track(range(repeats), "repeats"):
        measured.ours.append(seconds_of(sides.ours))
        measured.peer.append(seconds_of(sides.peer) if isinstance(sides.peer, Side) else sides.peer)
        progress.note(f"{measured.ratio:.3g} times as fast")
    return measured


def _require_agreement(entry: Entry, sides: Sides) -> None:
    with _threads(sides.ours.threads):
        own = sides.ours.work()
    if not isinstance(sides.peer, Side):
        return
    with _threads(sides.peer.threads):
        theirs = sides.peer.work()
    if sides.within is None:
        return
    if not isinstance(own, Tensor) or not isinstance(theirs, Tensor) or own.shape != theirs.shape:
        raise Disagreement(f"{entry.name}: the two sides do not return tensors of one shape: compare like with like")
    difference = (own - theirs).abs().max().item()
    if not difference <= sides.within:
        raise Disagreement(
            f"{entry.name}: the two sides differ by {difference:.2g}, more than {sides.within:g}: they do not do the "
            "same work, so their times are not compared"
        )


def seconds_of(side: Side) -> float:
    """Seconds per unit of one side."""
    with _threads(side.threads):
        began = time.perf_counter()
        side.work()
        return (time.perf_counter() - began) / side.amount


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def matmul_peak(threads: int, repeats: int = 5) -> float:
    """Floating-point operations per second of a large matrix product, the best of some repeats."""
    matrix = torch.randn(SIZE, SIZE)
    product = Side(lambda: matrix @ matrix, threads=threads)
    return 2 * SIZE**3 / min(seconds_of(product) for _ in range(1 + repeats))


def count_operations(work: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in some work."""
    with _threads(1), FlopCounterMode(display=False) as counter:  # it counts those of its own thread
        work()
    return counter.get_total_flops()


def peak_memory() -> float:
    """Maximum megabytes that this process has held at once."""
    for line in STATUS.read_text().splitlines() if STATUS.exists() else ():
        if line.startswith("VmHWM:"):  # ru_maxrss may begin with the memory of the parent process
            return int(line.split()[1]) / 2**10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)
