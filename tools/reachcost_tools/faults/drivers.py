"""Several drivers in one directory at once: each works or is refused in one sentence; the result is complete."""

from __future__ import annotations

import time

from numpy.random import Generator

from reachcost_tools.faults.commands import Disturbance, Trial
from reachcost_tools.faults.processes import Ended

ONCE = ("logs", "frames", "fit", "audit")
"""Commands that make something new, so that one of several drivers succeeds."""


def _start_several(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    seconds = trial.undisturbed.seconds
    delays = [float(rng.random()) ** 2 * seconds / 2 for _ in range(int(rng.integers(1, 3)))]
    processes = []
    for delay in (0.0, *delays):
        time.sleep(delay)
        processes.append(trial.start())
    ended = [process.wait() for process in processes]
    wrong = _wrong(trial, ended) or "".join(process.orphans() for process in processes)
    what = f"and again {', then '.join(f'{delay:.2f} s later' for delay in delays)}"
    return what, wrong or trial.differences() or trial.finished()


def _wrong(trial: Trial, ended: list[Ended]) -> str:
    """What is wrong about how the drivers ended."""
    done = sum(one.code in trial.command.fine for one in ended)
    for one in ended:
        if one.code not in trial.command.fine and not one.sentence:
            return str(one)
    if not done:
        return f"none of them did it: {ended[0]}"
    return f"{done} of them report that they made it" if trial.command.name in ONCE and done > 1 else ""


drivers = Disturbance(
    "drivers",
    ("sweep", "logs", "report", "fit", "frames", "sweep", "logs", "audit", "reproduce", "train-model", "workers"),
    _start_several,
)
