"""Ctrl-C at any moment: exit 130, no traceback, no half-written file, no process left; the same command resumes.

Every other attempt begins with the interpreter, as from a shell; the others interrupt the work of small commands, which
are repeated and must give the undisturbed bytes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost_tools.faults.classes import Attempt
from reachcost_tools.faults.commands import Bench, Disturbance, Trial
from reachcost_tools.faults.processes import until

FIRST = "reachcost_command"
"""Module whose import starts the command: all before it belongs to the interpreter."""
PATIENCE = 120.0
"""Seconds after which a command does not end."""
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
    subprocess.run([*_command(), *LOGS, "--out", str(logs)], check=True, capture_output=True, env=_environment(scratch))
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
    errors = out / "stderr.txt"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [*_command("-X", "importtime"), *arguments],
            cwd=out,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=_environment(out),
            start_new_session=True,
        )
    try:
        while not _has_begun(errors) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(delay)
        running = process.poll() is None
        if running:
            os.killpg(process.pid, signal.SIGINT)  # a terminal signals the whole group, too
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return "it did not end"
    finally:
        left = _end_group(process.pid)
    said = [line for line in errors.read_text(errors="replace").splitlines() if not line.startswith("import time:")]
    if any("Traceback" in line or "Exception ignored" in line for line in said):
        return f"it said {' / '.join(said[-3:])}"
    if code != 130 and not (code in DONE and not said):  # it may have ended
        return f"exit {code} after {' / '.join(said[-3:])}"
    if partial := [*out.rglob(".*.partial")]:
        return f"it left {partial[0].name}"
    return "a process was left behind" if left else ""


def _has_begun(errors: Path) -> bool:
    """Whether something was imported after the first module, so that the command handles signals."""
    return "import time:" in errors.read_text(errors="replace").partition(FIRST)[2]


def _end_group(group: int) -> bool:
    """End what is left of a group of processes after ten seconds; return whether there was anything."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    return True


def _command(*options: str) -> list[str]:
    return [sys.executable, *options, "-c", "import sys, reachcost_command; sys.exit(reachcost_command.main())"]


def _environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "REACHCOST_CACHE": str(cache / "cache"), "OMP_NUM_THREADS": "1"}
