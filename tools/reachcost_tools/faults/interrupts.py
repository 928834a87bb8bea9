"""Ctrl-C at any moment: exit code 130, no traceback, no half-written file, no process left; the same command resumes.

Every other attempt starts with the interpreter, as from a shell, and half of these are interrupted in their first half
second. The others are forks, interrupted after a share of their running time.
"""

import os
import signal

from numpy.random import Generator

from reachcost_tools.faults.commands import Disturbance, Trial
from reachcost_tools.faults.processes import Ended, Process, until

FIRST = "reachcost_command"
"""Module whose import starts the command: everything before it belongs to the interpreter."""
TIMEOUT = 120.0
"""Seconds after which a command counts as hanging."""


def _interrupt(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    """Interrupt a command, then repeat it to its end."""
    fresh = bool(number // len(interrupts.turns) % 2)
    delay = float(rng.random()) * (0.5 if fresh and rng.random() < 0.5 else trial.expected.seconds)
    while True:
        trial.renew_if_done()
        process = trial.start(fresh=fresh, options=("-X", "importtime") if fresh else ())
        ended = interrupted(process, delay, fresh)
        if ended.code not in trial.command.fine or fresh:
            break
        delay /= 2  # it had ended before
    wrong = error_of(ended, trial.command.fine) or process.orphans()
    what = f"Ctrl-C after {delay:.3f} s{' by a shell' if fresh else ''}"
    return what, wrong or trial.leftovers() or trial.half_written() or trial.finished()


def interrupted(process: Process, delay: float, fresh: bool) -> Ended:
    """Interrupt a process after some seconds; a fresh one, which prints its imports, first handles signals."""
    if fresh:  # once something is imported after the first module, the command handles signals
        until(lambda: process.ended() or "import time:" in process.errors().partition(FIRST)[2], TIMEOUT)
    if not until(process.ended, delay):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    return process.wait(TIMEOUT)


def error_of(ended: Ended, fine: tuple[int, ...]) -> str:
    """What is wrong about the end of an interrupted command, which may have ended before; its imports are ignored."""
    printed = [line for line in ended.error.splitlines() if not line.startswith("import time:")]
    if any("Traceback" in line or "ignored" in line for line in printed) or ended.code not in (130, *fine):
        return f"it ended with code {ended.code} after {' / '.join(printed[-3:])}"
    return ""


interrupts = Disturbance(
    "interrupt",
    ("sweep", "workers", "frames", "audit", "sweep", "train-model", "workers", "fit", "reproduce", "logs", "report"),
    _interrupt,
)
