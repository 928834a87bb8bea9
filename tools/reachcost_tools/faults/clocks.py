"""Clocks that jump, stand wrong or change their zone, and files from the far future and past: the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from reachcost.core.seeding import generator
from reachcost_tools.faults.attempt import Attempt
from reachcost_tools.faults.commands import COMMANDS, Bench, Trial, Undisturbed, contents
from reachcost_tools.faults.kills import killed_at_a_touch

TURNS = ("sweep", "logs", "reproduce", "report", "audit", "frames", "fit", "sweep", "train-model", "workers")
"""Commands in the order of tries."""
ZONES = ("Pacific/Kiritimati", "Etc/GMT+12", "Asia/Kathmandu")
LONG = 60 * 365 * 86400
"""Seconds: files and clocks are wrong by up to so much."""
JUMPING = """
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
"""What a process imports before all else to have a clock that jumps."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Kill every command half-way, let time go wrong, and repeat it."""
    bench = Bench(scratch)
    for number in range(count):
        yield attempt(bench, number)


def attempt(bench: Bench, number: int) -> Attempt:
    """The n-th try."""
    command, rng = COMMANDS[TURNS[number % len(TURNS)]], generator(number, "clock")
    undisturbed, trial = bench.undisturbed(command), bench.new(command)
    jumps = number % 3 == 2
    try:
        how, wrong = killed_at_a_touch(trial, undisturbed, float(rng.random()))
        shift = int(rng.uniform(-1, 1) * LONG)
        age(trial.directory, shift)
        zone = str(rng.choice(ZONES))
        what = f"files {shift} s old, in {zone}{', by a clock that jumps' if jumps else ''}"
        wrong = wrong or _repeated(
            trial, undisturbed, {"TZ": zone, **(_jumping(bench, number) if jumps else {})}, jumps
        )
    finally:
        trial.remove()
    return Attempt(f"try {number}: {command.name}, killed {how}; {what}", wrong)


def age(directory: Path, shift: int) -> None:
    """Let all files be of another time."""
    for path in (directory, *directory.rglob("*")):
        now = path.lstat().st_mtime
        then = max(0.0, now - shift)
        os.utime(path, (then, then), follow_symlinks=False)


def _jumping(bench: Bench, number: int) -> dict[str, str]:
    """The environment of an interpreter whose clock jumps."""
    place = bench.scratch / f"clock-{number}"
    place.mkdir()
    (place / "sitecustomize.py").write_text(JUMPING.format(seed=number, long=LONG))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))}


def _repeated(trial: Trial, undisturbed: Undisturbed, environment: dict[str, str], fresh: bool) -> str:
    """What is wrong about the end of a command under a wrong clock; only a new interpreter can have one that jumps."""
    ended = trial.start(fresh=fresh, environment=environment).wait()
    complete = contents(trial.directory) == undisturbed.contents  # before the kill, and then it is refused
    if ended.code not in trial.command.fine and not (complete and ended.sentence):
        return f"it failed: {ended}"
    age(trial.directory, -LONG // 2)
    return trial.finished(undisturbed)
