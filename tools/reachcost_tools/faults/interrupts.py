"""Ctrl-C at any moment: exit 130, no traceback, no half-written file, no process left; the same command resumes.

Every other attempt begins with the interpreter, as from a shell; the others interrupt the work of small commands, which
are repeated and must give the undisturbed bytes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost_tools.faults.classes import Attempt
from reachcost_tools.faults.commands import Bench, Disturbance, Trial
from reachcost_tools.faults.processes import Process, until

FIRST = "reachcost_command"
"""Module whose import starts the command: all before it belongs to the interpreter."""
TIMEOUT = 120.0
"""Seconds after which a command counts as hanging."""
LOGS = ("logs", "generate", "tworoom", "--episodes", "300", "--overwrite")
MODEL = ("--model", "lewm-tworoom-3072", "--logs", "{logs}", "--task", "tworoom")
COMMANDS: dict[str, tuple[tuple[str, ...], float]] = {
    "help": (("--help",), 1.0),
    "logs": ((*LOGS, "--pixels", "64", "--out", "{out}/logs.h5"), 3.0),
    "logs by workers": (("logs", "generate", "pusht", "--episodes", "400", "--out", "{out}/logs.h5"), 4.0),
    "fit": (("fit", *MODEL, "--pairs", "20000", "--out", "{out}/head"), 5.0),
    "train-model": (
        ("train-model", "lewm", "--logs", "{logs}", "--task", "tworoom", "--steps", "200", "--out", "{out}/model"),
        5.0,
    ),
    "audit": (("audit", *MODEL, "--episodes", "4", "--out", "{out}/audit.json"), 6.0),
    "reproduce": (("reproduce", "toponav", "--out", "{out}/study"), 8.0),
    "reproduce by workers": (
        ("reproduce", "toponav", "--on", "local", "--workers", "2", "--out", "{out}/study"),
        10.0,
    ),
}
"""Arguments, and the seconds within which the interrupt comes."""
DONE = (0, 3, 4)
"""How commands end that are not interrupted: 3 and 4 are verdicts of an audit."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Interrupt a fresh command and a small one in turn; half of the fresh ones within their first half second."""
    logs, bench = scratch / "logs.h5", Bench(scratch / "small")
    ended = Process([*LOGS, "--out", str(logs)], scratch).wait()
    assert ended.code == 0, ended
    for number in range(count):
        if number % 2:
            yield interrupts.attempt(bench, number // 2)
            continue
        rng = generator(0, "interrupts", number)
        name = [*COMMANDS][number // 2 % len(COMMANDS)]
        arguments, most = COMMANDS[name]
        delay = float(rng.uniform(0, 0.5) if rng.random() < 0.5 else rng.uniform(0.5, most))
        out = scratch / str(number)
        given = [word.format(logs=logs, out=out) for word in arguments]
        yield Attempt(f"{name}: Ctrl-C after {delay:.3f} s (try {number})", interrupted(given, delay, out))


def _interrupt(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    """Interrupt a small command after a share of the time that it takes, then repeat it to its end."""
    share = float(rng.random())
    delay = share * trial.undisturbed.seconds
    while True:
        trial.renew_if_done()
        process = trial.start()
        if not until(process.ended, delay):
            break
        process.wait()
        delay /= 2  # it had ended before
    os.killpg(process.pid, signal.SIGINT)
    ended = process.wait()
    what = f"Ctrl-C at {share:.3f} of its time"
    if ended.code not in (130, *trial.command.fine) or "Traceback" in ended.error or "ignored" in ended.error:
        return what, f"it ended with {ended}"
    return what, process.orphans() or trial.leftovers() or trial.half_written() or trial.finished()


interrupts = Disturbance(
    "interrupt",
    ("sweep", "workers", "frames", "audit", "sweep", "train-model", "workers", "fit", "reproduce", "logs", "report"),
    _interrupt,
)


def interrupted(arguments: Sequence[str], delay: float, out: Path) -> str:
    """Run a command, interrupt it some seconds after its start, and return what is wrong about its end."""
    out.mkdir(parents=True)
    cache = {"REACHCOST_CACHE": str(out / "cache")}
    process = Process(arguments, out, cache, fresh=True, options=("-X", "importtime"))
    # once something is imported after the first module, the command handles signals
    until(lambda: process.ended() or "import time:" in process.errors().partition(FIRST)[2], TIMEOUT)
    time.sleep(delay)
    if not process.ended():
        os.killpg(process.pid, signal.SIGINT)  # a terminal signals the whole group, too
    ended = process.wait(TIMEOUT)
    printed = [line for line in ended.error.splitlines() if not line.startswith("import time:")]
    if any("Traceback" in line or "Exception ignored" in line for line in printed):
        return f"it printed {' / '.join(printed[-3:])}"
    if ended.code != 130 and not (ended.code in DONE and not printed):  # it may have ended before
        return f"exit code {ended.code} after {' / '.join(printed[-3:])}"
    if partial := [*out.rglob(".*.partial")]:
        return f"it left {partial[0].name}"
    return process.orphans()
