"""A comparison of some work of reachcost with the same work of a peer."""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

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
    """The timed function; its result is compared with the result of the other side if they must agree."""
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
    """What is compared with what."""
    prepare: Callable[[], Sides]
    """Makes both sides: models, logs, frames. It is not timed."""
    unit: str
    """Unit of work of the recorded seconds."""
    target: float | None = None
    """Minimum ratio of the peer's time to ours."""
    repeats: int = 3
    """Number of times that each side is measured, in turn."""
    against: Against | None = None
    """The extra that brings the peer."""


def in_threads(threads: int) -> str:
    """The number of threads in a name."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


class Disagreement(ReachcostError):
    """Both sides of a comparison return different results, so their times cannot be compared."""


def measure(entry: Entry, repeats: int, progress: Progress) -> dict[str, Any]:
    """Time both sides in turn, after each has run once; returns the record of an entry.

    Seconds and ratio are those of the fastest repeats, as other work of the machine only slows. Raises `Disagreement`
    if the sides return different tensors.
    """
    sides = entry.prepare()
    _require_agreement(entry, sides)
    ours: list[float] = []
    peer: list[float] = []
    progress.step(entry.name)
    for _ in progress.track(range(repeats), "repeats"):
        ours.append(seconds_of(sides.ours))
        peer.append(seconds_of(sides.peer) if isinstance(sides.peer, Side) else sides.peer)
        progress.note(f"{min(peer) / min(ours):.3g} times as fast")
    ratios = [theirs / own for own, theirs in zip(ours, peer, strict=True)]
    row: dict[str, Any] = {
        "says": entry.says,
        "unit": entry.unit,
        "threads": sides.ours.threads,
        "repeats": repeats,
        "ours_seconds": rounded(min(ours)),
        "peer_seconds": rounded(min(peer)),
        "ratio": rounded(min(peer) / min(ours)),
        "ratio_least": rounded(min(ratios)),
        "ratio_most": rounded(max(ratios)),
    }
    if sides.counted:
        rate = count_operations(sides.ours.work) / sides.ours.amount / min(ours)
        row["share_of_matmul_peak"] = round(rate / matmul_peak(sides.ours.threads), 3)
    return row


def _require_agreement(entry: Entry, sides: Sides) -> None:
    own, theirs = (_run(side) if isinstance(side, Side) else None for side in (sides.ours, sides.peer))
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
    began = time.perf_counter()
    _run(side)
    return (time.perf_counter() - began) / side.amount


def _run(side: Side) -> object:
    with _threads(side.threads):
        return side.work()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def matmul_peak(threads: int) -> float:
    """Floating-point operations per second of a large matrix product, the best of six repeats."""
    matrix = torch.randn(SIZE, SIZE)
    product = Side(lambda: matrix @ matrix, threads=threads)
    return 2 * SIZE**3 / min(seconds_of(product) for _ in range(6))


def rounded(number: float) -> float:
    """Round to four digits, as timers resolve no more."""
    return float(f"{number:.4g}")


def count_operations(work: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in some work."""
    with _threads(1), FlopCounterMode(display=False) as counter:  # it counts one thread
        work()
    return counter.get_total_flops()


def peak_memory() -> float:
    """Maximum megabytes that this process has held at once."""
    for line in STATUS.read_text().splitlines() if STATUS.exists() else ():
        if line.startswith("VmHWM:"):  # ru_maxrss may begin with the memory of the parent process
            return int(line.split()[1]) / 2**10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)
