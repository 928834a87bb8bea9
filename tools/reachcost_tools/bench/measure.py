"""How a comparison is timed, and what the machine could do at best."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError
from reachcost_tools.bench.entry import Entry, Side, Sides

SIDE = 2048
"""Of the square matrices whose product is the machine's peak."""
STATUS = Path("/proc/self/status")
"""What Linux says of this process."""


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
    """Of ours."""
    operations: int | None
    """Floating-point operations of our matrix products per unit, where they were counted."""

    @property
    def ratios(self) -> list[float]:
        """How many times as fast ours was, in each repeat."""
        return [theirs / own for own, theirs in zip(self.ours, self.peer, strict=True)]

    @property
    def ratio(self) -> float:
        """That of the fastest repeats: what else a machine does only ever slows."""
        return min(self.peer) / min(self.ours)


def measure(entry: Entry, repeats: int, progress: Progress) -> Measured:
    """Time both sides in turn, after each has run once; what both return must agree, where that can be said."""
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
    """Run each side once, and compare what they return."""
    with using(sides.ours.threads):
        own = sides.ours.work()
    if not isinstance(sides.peer, Side):
        return
    with using(sides.peer.threads):
        theirs = sides.peer.work()
    if sides.within is None:
        return
    if not isinstance(own, Tensor) or not isinstance(theirs, Tensor) or own.shape != theirs.shape:
        raise Disagreement(f"{entry.name}: the two sides do not return tensors of one shape: compare like with like")
    apart = (own - theirs).abs().max().item()
    if not apart <= sides.within:
        raise Disagreement(
            f"{entry.name}: the two sides differ by {apart:.2g}, more than {sides.within:g}: they do not do the same "
            "work, so their times are not compared"
        )


def seconds_of(side: Side) -> float:
    """Seconds per unit that one side takes."""
    with using(side.threads):
        began = time.perf_counter()
        side.work()
        return (time.perf_counter() - began) / side.amount


@contextmanager
def using(threads: int) -> Iterator[None]:
    """Let torch use so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def matmul_peak(threads: int, repeats: int = 5) -> float:
    """Floating-point operations per second of a large matrix product, the best of some repeats."""
    matrix = torch.randn(SIDE, SIDE)
    product = Side(lambda: matrix @ matrix, threads=threads)
    return 2 * SIDE**3 / min(seconds_of(product) for _ in range(1 + repeats))


def count_operations(work: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in some work."""
    with using(1), FlopCounterMode(display=False) as counter:  # it sees its own thread alone
        work()
    return counter.get_total_flops()


def peak_memory() -> float:
    """Most megabytes that this process has held at once."""
    told = STATUS.read_text().splitlines() if STATUS.exists() else []
    for line in told:
        if line.startswith("VmHWM:"):  # what follows may begin with what the process held that started this one
            return int(line.split()[1]) / 2**10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)
