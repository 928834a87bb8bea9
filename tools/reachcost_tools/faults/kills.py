"""SIGKILL of commands and workers, Ctrl-C, wrong clocks, several drivers at once: each ends with the undisturbed bytes.

Every other command that Ctrl-C interrupts starts with the interpreter, as from a shell, and half of these are
interrupted in their first half second. The others are forks, interrupted after a share of their running time.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from numpy.random import Generator

from reachcost_tools.faults.commands import Disturbance, Trial
from reachcost_tools.faults.processes import Ended, Process, until

FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate", "shutil.rmtree"}
"""Audit events that Python raises before it touches a file."""
ONCE = ("logs", "frames", "fit", "audit")
"""Commands that make something new, so that one of several drivers succeeds."""
LONG = 60 * 365 * 86400
"""Seconds by which files and clocks are wrong at most."""
ZONES = ("Pacific/Kiritimati", "Etc/GMT+12", "Asia/Kathmandu")
JUMPING_CLOCK = """
import random, time
_true, _random = time.time, random.Random({seed})
_shift = [_random.uniform(-1, 1) * {long}]
def _time():
    if _random.random() < 0.1:
        _shift[0] = _random.uniform(-1, 1) * {long}
    return max(0.0, _true() + _shift[0])
time.time = _time
time.time_ns = lambda: int(_time() * 1e9)
"""
"""Module `sitecustomize` of a process whose clock jumps."""


def _kill_repeatedly(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    """Kill a command at random moments, one to three times in a row, and repeat it to its end."""
    killed, wrong = [], ""
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        own = ["worker"] * 4 if trial.command.name == "workers" else ["touch"] * 4
        kill = KILLS[str(rng.choice(["moment", "moment", "fresh", *own]))]
        how, wrong = kill(trial, float(rng.random()))
        killed.append(how)
        wrong = wrong or trial.half_written()
        if wrong:
            break
    return f"killed {', then '.join(killed)}", wrong or trial.finished()


def _at_a_moment(trial: Trial, share: float, fresh: bool = False) -> tuple[str, str]:
    """Kill the command after a share of the time that it takes, earlier if it has ended by then."""
    delay = share * trial.expected.seconds + (2.0 if fresh else 0.0)
    while True:
        trial.renew_if_done()
        process = trial.start(fresh=fresh)
        until(process.ended, delay)
        process.kill()
        if process.wait().code == -signal.SIGKILL:
            return f"at {share:.3f} of its time{' by a shell' if fresh else ''}", process.orphans()
        delay /= 2


def _at_a_touch(trial: Trial, share: float) -> tuple[str, str]:
    """Let the command kill itself just before it touches a file of its directory for the n-th time."""
    most = 40 if len(trial.expected.contents) < 8 else 160
    while True:
        trial.renew_if_done()
        last = 1 + int(share * most)
        process = trial.start(prepare=_kill_before_touch(last, trial.directory))
        ended = process.wait()
        if ended.code == -signal.SIGKILL:
            return f"before touch {last} of a file", process.orphans()
        if ended.code not in trial.command.fine:
            return f"before touch {last} of a file", f"it failed before: {ended}"
        most = max(1, most // 2)


def _kill_before_touch(last: int, directory: Path) -> Callable[[], None]:
    """Function that makes its process kill itself before it touches something in a directory for the n-th time."""
    left, driver = [last], []

    def prepare() -> None:
        driver.append(os.getpid())
        sys.addaudithook(look)

    def look(event: str, given: tuple[object, ...]) -> None:
        if event in FILE_EVENTS and given and driver == [os.getpid()] and _is_below(given[0], str(directory)):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    return prepare


def _is_below(place: object, directory: str) -> bool:
    if not isinstance(place, str | bytes | os.PathLike):
        return False
    text = os.fsdecode(place)
    return text.startswith(directory) or not text.startswith("/")


def _worker(trial: Trial, share: float) -> tuple[str, str]:
    """Kill one of its workers after a share of the time, or the first that appears; the driver goes on."""
    trial.renew_if_done()
    began, process = time.monotonic(), trial.start()
    until(lambda: process.ended() or time.monotonic() - began > share * trial.expected.seconds, 60)
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


KILLS = {
    "moment": _at_a_moment,
    "fresh": partial(_at_a_moment, fresh=True),
    "touch": _at_a_touch,
    "worker": _worker,
}


def _change_time(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    """Kill a command, change the times of its files and its clock, and repeat it; every third clock jumps."""
    jumps = number % 3 == 2
    how, wrong = _at_a_touch(trial, float(rng.random()))
    shift = int(rng.uniform(-1, 1) * LONG)
    _age(trial.directory, shift)
    environment = {"TZ": str(rng.choice(ZONES))}
    what = f"killed {how}; files {shift} s old, in {environment['TZ']}{', by a clock that jumps' if jumps else ''}"
    if jumps:  # which needs a new interpreter
        place = trial.directory.with_name(f"clock-{number}")
        place.mkdir()
        (place / "sitecustomize.py").write_text(JUMPING_CLOCK.format(seed=number, long=LONG))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))
    if wrong:
        return what, wrong
    ended = trial.start(environment, fresh=jumps).wait()
    refused = trial.complete() and ended.sentence  # it was complete before the kill
    if ended.code not in trial.command.fine and not refused:
        return what, f"it failed: {ended}"
    _age(trial.directory, -LONG // 2)
    return what, trial.finished()


def _age(directory: Path, shift: int) -> None:
    """Make all files older by some seconds."""
    for path in (directory, *directory.rglob("*")):
        then = max(0.0, path.lstat().st_mtime - shift)
        os.utime(path, (then, then), follow_symlinks=False)


def _start_several(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    """Start a command two or three times in one directory."""
    delays = [float(rng.random()) ** 2 * trial.expected.seconds / 2 for _ in range(int(rng.integers(1, 3)))]
    processes = []
    for delay in (0.0, *delays):
        time.sleep(delay)
        processes.append(trial.start())
    ended = [process.wait() for process in processes]
    done = [one for one in ended if one.code in trial.command.fine]
    wrong = "; ".join(str(one) for one in ended if one not in done and not one.sentence)
    if len(done) != 1 and (not done or trial.command.name in ONCE):
        wrong = wrong or f"{len(done)} of them succeeded: {ended[0]}"
    wrong = wrong or "".join(process.orphans() for process in processes)
    what = f"and again {', then '.join(f'{delay:.2f} s later' for delay in delays)}"
    return what, wrong or trial.differences() or trial.finished()


kills = Disturbance(
    "kill",
    (
        *("sweep", "logs", "workers", "report", "sweep", "audit", "frames", "sweep", "reproduce", "report"),
        *("sweep", "logs", "workers", "report", "sweep", "fit", "logs", "sweep", "train-model", "audit"),
    ),
    _kill_repeatedly,
)
clocks = Disturbance(
    "clock",
    ("sweep", "logs", "reproduce", "report", "audit", "frames", "fit", "sweep", "train-model", "workers"),
    _change_time,
)
drivers = Disturbance(
    "drivers",
    ("sweep", "logs", "report", "fit", "frames", "sweep", "logs", "audit", "reproduce", "train-model", "workers"),
    _start_several,
)
FIRST = "reachcost_command"
"""Module whose import starts the command: everything before it belongs to the interpreter."""
TIMEOUT = 120.0
"""Seconds after which an interrupted command counts as hanging."""


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
