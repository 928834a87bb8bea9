"""One size of a curve, measured in a process of its own: its peak of memory is that of nothing else."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from reachcost_tools.bench.entry import Side
from reachcost_tools.bench.growth.curve import Prepare
from reachcost_tools.bench.measure import peak_memory, seconds_of

LONG = 20.0
"""Seconds of work that is done once; what is shorter is done once more at least, as the first time takes longer."""
ENOUGH, REPEATS = 3.0, 20
"""Seconds, or times, after which work is not repeated."""


class Point(NamedTuple):
    """What one size took."""

    seconds: float
    """On one thread; the least of the repeats, as nothing makes work faster than it is."""
    memory: float
    """Most megabytes that the process held, those of preparing it among them."""


def in_new_process(prepare: Prepare, size: int) -> Point:
    """Measure a size; what fails there is raised here."""
    with (
        TemporaryDirectory(prefix="reachcost-growth-") as directory,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process,
    ):
        return process.submit(measured, prepare, size, Path(directory)).result()


def measured(prepare: Prepare, size: int, directory: Path) -> Point:
    """Measure a size in this process."""
    return Point(min(repeated(prepare(size, directory))), peak_memory())


def repeated(work: Callable[[], object]) -> list[float]:
    """Seconds of some work, each time."""
    side = Side(work, threads=1)
    seconds = [seconds_of(side)]
    while seconds[0] < LONG and sum(seconds[1:]) < ENOUGH and len(seconds) < REPEATS:
        seconds.append(seconds_of(side))
    return seconds
