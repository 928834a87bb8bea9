"""Random SIGKILLs of commands and of their workers: repeated, each comes to the bytes of an undisturbed run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from reachcost.core.seeding import generator
from reachcost_tools.faults.attempt import Attempt
from reachcost_tools.faults.commands import COMMANDS, Bench, Trial, Undisturbed
from reachcost_tools.faults.processes import Process, until

TOUCHES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate", "shutil.rmtree"}
"""What Python tells of before it touches files."""
TURNS = (
    *("sweep", "logs", "workers", "report", "sweep", "audit", "frames", "sweep", "reproduce", "report"),
    *("sweep", "logs", "workers", "report", "sweep", "fit", "logs", "sweep", "train-model", "audit"),
)
"""Commands in the order of tries."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Kill each command at moments all over its run, one to three times in a row, and repeat it to its end."""
    bench = Bench(scratch)
    for number in range(count):
        yield attempt(bench, number)


def attempt(bench: Bench, number: int) -> Attempt:
    """The n-th try."""
    command, rng = COMMANDS[TURNS[number % len(TURNS)]], generator(number, "kill")
    undisturbed, trial = bench.undisturbed(command), bench.new(command)
    told, wrong = [], ""
    try:
        for _ in range(int(rng.choice([1, 1, 2, 3]))):
            own = ["worker"] * 4 if command.name == "workers" else ["touch"] * 4
            way = str(rng.choice(["moment", "moment", "fresh", *own]))
            how, wrong = WAYS[way](trial, undisturbed, float(rng.random()))
            told.append(how)
            wrong = wrong or trial.half_written(undisturbed)
            if wrong:
                break
        wrong = wrong or trial.finished(undisturbed)
    finally:
        trial.remove()
    return Attempt(f"try {number}: {command.name}, killed {', then '.join(told)}", wrong)


def _at_a_moment(trial: Trial, undisturbed: Undisturbed, share: float, fresh: bool = False) -> tuple[str, str]:
    """Kill the command after a share of the time that it takes, earlier if it has ended by then."""
    started = share * undisturbed.seconds + (2.0 if fresh else 0.0)
    while True:
        trial.renew_if_done(undisturbed)
        process = trial.start(fresh=fresh)
        until(process.ended, started)
        process.kill()
        if process.wait().code == -signal.SIGKILL:
            return f"at {share:.3f} of its time{' by a shell' if fresh else ''}", process.orphans()
        started /= 2


def _fresh(trial: Trial, undisturbed: Undisturbed, share: float) -> tuple[str, str]:
    """The same of a process that began with the interpreter."""
    return _at_a_moment(trial, undisturbed, share, fresh=True)


def killed_at_a_touch(trial: Trial, undisturbed: Undisturbed, share: float) -> tuple[str, str]:
    """Let the command kill itself just before it touches a file of its directory for the n-th time."""
    most = 40 if len(undisturbed.contents) < 8 else 160
    while True:
        trial.renew_if_done(undisturbed)
        last = 1 + int(share * most)
        process = trial.start(prepare=_killing(last, trial.directory))
        ended = process.wait()
        if ended.code == -signal.SIGKILL:
            return f"before touch {last} of a file", process.orphans()
        if ended.code not in trial.command.fine:
            return f"before touch {last} of a file", f"it failed before: {ended}"
        most = max(1, most // 2)


def _killing(last: int, directory: Path) -> Callable[[], None]:
    """What makes a process kill itself at the n-th touch of something in a directory, from now on."""
    inside, driver = str(directory), []

    def prepare() -> None:
        driver.append(os.getpid())
        sys.addaudithook(look)

    left = [last]

    def look(event: str, given: tuple[object, ...]) -> None:
        if event in TOUCHES and given and driver == [os.getpid()] and _below(given[0], inside):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    return prepare


def _below(place: object, directory: str) -> bool:
    if not isinstance(place, str | bytes | os.PathLike):
        return False
    text = os.fsdecode(place)
    return text.startswith(directory) or not text.startswith("/")


def _worker(trial: Trial, undisturbed: Undisturbed, share: float) -> tuple[str, str]:
    """Kill one of its workers after a share of the time, or the first that comes; the driver goes on."""
    trial.renew_if_done(undisturbed)
    began, process = time.monotonic(), trial.start()
    until(lambda: process.ended() or time.monotonic() - began > share * undisturbed.seconds, 60)
    until(lambda: process.ended() or bool(_workers(process)), 60)
    killed = [*_workers(process)][:1]
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if not killed:
        process.kill()
    ended = process.wait()
    right = ended.code in (*trial.command.fine, *(() if killed else (-signal.SIGKILL,))) or ended.sentence
    wrong = "" if right else f"it ended with {ended}"
    return f"one of its workers at {share:.3f} of its time", wrong or process.orphans()


def _workers(process: Process) -> list[int]:
    """Workers are children of a child of the driver."""
    others = process.others()
    return [pid for pid, parent in others.items() if others.get(parent) == process.pid]


WAYS = {"moment": _at_a_moment, "fresh": _fresh, "touch": killed_at_a_touch, "worker": _worker}
