"""Ctrl-C at any moment: exit 130, no traceback, nothing half written, nobody left behind, and the same command goes on.

Every other try begins with the interpreter, as from a shell; the others fall into the work of small commands, which are
repeated and must come to the bytes of an undisturbed run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from reachcost.core.seeding import generator
from reachcost_tools.faults.attempt import Attempt
from reachcost_tools.faults.commands import COMMANDS as SMALL
from reachcost_tools.faults.commands import Bench, Trial, Undisturbed
from reachcost_tools.faults.processes import until

FIRST = "reachcost_command"
"""The module whose import is the first moment of the command: what comes before is the interpreter's own."""
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
TURNS = ("sweep", "workers", "frames", "audit", "sweep", "train-model", "workers", "fit", "reproduce", "logs", "report")
"""Small commands in the order of tries."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Interrupt one command after the other, each at a random moment; of fresh ones the first half second as often."""
    logs, bench = scratch / "logs.h5", Bench(scratch / "small")
    subprocess.run([*_command(), *LOGS, "--out", str(logs)], check=True, capture_output=True, env=_environment(scratch))
    for number in range(count):
        if number % 2:
            yield attempt(bench, number // 2)
            continue
        rng = generator(0, "interrupts", number)
        name = [*COMMANDS][number // 2 % len(COMMANDS)]
        arguments, most = COMMANDS[name]
        delay = float(rng.uniform(0, 0.5) if rng.random() < 0.5 else rng.uniform(0.5, most))
        out = scratch / str(number)
        given = [word.format(logs=logs, out=out) for word in arguments]
        yield Attempt(f"{name}: Ctrl-C after {delay:.3f} s (try {number})", interrupted(given, delay, out))


def attempt(bench: Bench, number: int) -> Attempt:
    """Interrupt a small command in its work, then repeat it to its end."""
    command, share = SMALL[TURNS[number % len(TURNS)]], float(generator(number, "interrupt").random())
    undisturbed, trial = bench.undisturbed(command), bench.new(command)
    try:
        wrong = _stopped(trial, undisturbed, share) or trial.half_written(undisturbed) or trial.finished(undisturbed)
    finally:
        trial.remove()
    return Attempt(f"try {number}: {command.name}, Ctrl-C at {share:.3f} of its time", wrong)


def _stopped(trial: Trial, undisturbed: Undisturbed, share: float) -> str:
    """What is wrong about the end of a command that is interrupted after a share of the time that it takes."""
    seconds = share * undisturbed.seconds
    while True:
        trial.renew_if_done(undisturbed)
        process = trial.start()
        if not until(process.ended, seconds):
            break
        process.wait()
        seconds /= 2  # it was done before
    os.killpg(process.pid, signal.SIGINT)
    ended = process.wait()
    if ended.code not in (130, *trial.command.fine) or "Traceback" in ended.error or "ignored" in ended.error:
        return f"it ended with {ended}"
    return process.orphans() or trial.leftovers()


def interrupted(arguments: Sequence[str], delay: float, out: Path) -> str:
    """Run a command, interrupt it some seconds after its first moment, and say what is wrong about its end."""
    out.mkdir(parents=True)
    told = out / "stderr.txt"
    with told.open("wb") as file:
        process = subprocess.Popen(
            [*_command("-X", "importtime"), *arguments],
            cwd=out,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=_environment(out),
            start_new_session=True,
        )
    try:
        while not _begun(told) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(delay)
        running = process.poll() is None
        if running:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody hears it
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return "it did not end"
    finally:
        left = _end_group(process.pid)
    said = [line for line in told.read_text(errors="replace").splitlines() if not line.startswith("import time:")]
    if any("Traceback" in line or "Exception ignored" in line for line in said):
        return f"it said {' / '.join(said[-3:])}"
    if code != 130 and not (code in DONE and not said):  # it may have been done
        return f"exit {code} after {' / '.join(said[-3:])}"
    if partial := [*out.rglob(".*.partial")]:
        return f"it left {partial[0].name}"
    return "a process was left behind" if left else ""


def _begun(told: Path) -> bool:
    """Whether something was imported after the first module, so that the command is there to hear."""
    return "import time:" in told.read_text(errors="replace").partition(FIRST)[2]


def _end_group(group: int) -> bool:
    """End what is left of a group of processes after a while; whether there was anything."""
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
