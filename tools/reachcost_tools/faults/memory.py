"""Too little memory, at many levels up to what a command needs: one sentence, or the right bytes."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

from reachcost.core.seeding import generator
from reachcost_tools.faults.attempt import Attempt
from reachcost_tools.faults.commands import COMMANDS, Bench, contents

TURNS = ("fit", "frames", "sweep", "audit", "logs", "report", "train-model", "sweep", "reproduce", "logs", "workers")
"""Commands in the order of tries."""
MOST = 300 * 2**20
"""Bytes beyond those of imports that are enough for most commands."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Run every command with a bounded address space, then once more without bounds."""
    bench = Bench(scratch)
    for number in range(count):
        yield attempt(bench, number)


def attempt(bench: Bench, number: int) -> Attempt:
    """The n-th try."""
    command, rng = COMMANDS[TURNS[number % len(TURNS)]], generator(number, "memory")
    undisturbed, trial = bench.undisturbed(command), bench.new(command)
    more = int(MOST * float(rng.random()) ** 3)
    try:
        process = trial.start(prepare=_bounded(more))
        ended = process.wait()
        if ended.code in command.fine:
            wrong = "" if contents(trial.directory) == undisturbed.contents else f"other bytes: {ended}"
        else:
            wrong = "" if ended.sentence else str(ended)
        wrong = wrong or process.orphans() or trial.half_written(undisturbed) or trial.finished(undisturbed)
    finally:
        trial.remove()
    return Attempt(f"try {number}: {command.name}, with {more >> 10} kB beyond what imports take", wrong)


def _bounded(more: int) -> Callable[[], None]:
    """What leaves a process so many bytes beyond those that it has."""

    def prepare() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        bound = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))

    return prepare
