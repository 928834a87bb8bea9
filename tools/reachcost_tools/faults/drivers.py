"""Several drivers in one directory at once: each does its work or is refused in a sentence; all is whole at last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from reachcost.core.seeding import generator
from reachcost_tools.faults.attempt import Attempt
from reachcost_tools.faults.commands import COMMANDS, Bench, Undisturbed, contents
from reachcost_tools.faults.processes import Ended

TURNS = ("sweep", "logs", "report", "fit", "frames", "sweep", "logs", "audit", "reproduce", "train-model", "workers")
"""Commands in the order of tries."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Start every command two or three times, one soon after the other."""
    bench = Bench(scratch)
    for number in range(count):
        yield attempt(bench, number)


def attempt(bench: Bench, number: int) -> Attempt:
    """The n-th try."""
    command, rng = COMMANDS[TURNS[number % len(TURNS)]], generator(number, "drivers")
    undisturbed, trial = bench.undisturbed(command), bench.new(command)
    late = [0.0, *(float(rng.random()) ** 2 * undisturbed.seconds / 2 for _ in range(int(rng.integers(1, 3))))]
    processes = []
    try:
        for seconds in late:
            time.sleep(seconds)
            processes.append(trial.start())
        ended = [process.wait() for process in processes]
        wrong = _wrong(ended, command.fine, once=command.name in ("logs", "frames", "fit", "audit"))
        wrong = wrong or "".join(process.orphans() for process in processes)
        wrong = wrong or _whole(contents(trial.directory), undisturbed) or trial.finished(undisturbed)
    finally:
        trial.remove()
    told = ", then ".join(f"{seconds:.2f} s later" for seconds in late[1:])
    return Attempt(f"try {number}: {command.name}, and again {told}", wrong)


def _wrong(ended: list[Ended], fine: tuple[int, ...], once: bool) -> str:
    """What is wrong about how they ended: what makes a new thing can do so once."""
    done = sum(one.code in fine for one in ended)
    for one in ended:
        if one.code not in fine and not one.sentence:
            return str(one)
    if not done:
        return f"none of them did it: {ended[0]}"
    return f"{done} of them say that they made it" if once and done > 1 else ""


def _whole(found: dict[str, bytes], undisturbed: Undisturbed) -> str:
    """What is wrong about the bytes after all of them: one has done everything."""
    wrong = [
        name for name in sorted({*found, *undisturbed.contents}) if found.get(name) != undisturbed.contents.get(name)
    ]
    return f"other bytes in {', '.join(wrong[:3])}" if wrong else ""
