"""Disks that are full, become full in the middle, or are read only: one sentence, and nothing half-written is left.

Where file systems cannot be mounted a limit on the size of files stands for the full disk.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from reachcost.core.seeding import generator
from reachcost_tools.faults.attempt import Attempt
from reachcost_tools.faults.commands import COMMANDS, Bench, Trial, Undisturbed, contents
from reachcost_tools.faults.processes import Ended

TURNS = ("logs", "frames", "sweep", "audit", "report", "fit", "workers", "reproduce", "train-model")
"""Commands in the order of tries."""
SPARE = 64 * 2**20
"""Bytes that every command finds room in."""
NOBODY = 65534


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Run every command on disks without room for all of it, then once more with room."""
    bench = Bench(scratch)
    for number in range(count):
        yield attempt(bench, number)


def attempt(bench: Bench, number: int) -> Attempt:
    """The n-th try."""
    command, rng = COMMANDS[TURNS[number % len(TURNS)]], generator(number, "disk")
    undisturbed, share = bench.undisturbed(command), float(rng.random()) ** 2
    kinds = ("full", "limit", "full", "read-only") if _can_mount() else ("limit", "limit", "forbidden")
    kind = kinds[number // len(TURNS) % len(kinds)]
    trial = bench.new(command)
    try:
        if kind in ("full", "read-only"):
            with _disk(trial, undisturbed.size):
                what, wrong = _on_a_disk(trial, undisturbed, kind, share)
        else:
            what, wrong = _limited(trial, undisturbed, kind, share)
    finally:
        trial.remove()
    return Attempt(f"try {number}: {command.name}, {what}", wrong)


def _on_a_disk(trial: Trial, undisturbed: Undisturbed, kind: str, share: float) -> tuple[str, str]:
    """Fill the disk up to a share of what is needed, or let nothing be written; mend that, and repeat."""
    free = int(share * undisturbed.size) // 4096 * 4096
    what = "on a disk that is read only" if kind == "read-only" else f"on a disk with room for {free} bytes"
    ballast = trial.directory / "tmp" / "torchinductor_ballast"
    if kind == "read-only":
        _remount(trial.directory, "ro")
    else:
        room = os.statvfs(trial.directory).f_bavail * 4096 - free
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, room)
    ended = trial.start().wait()
    wrong = _refused(trial, undisturbed, ended)
    if kind == "read-only":
        _remount(trial.directory, "rw")
    else:
        ballast.unlink()
    return what, wrong or trial.finished(undisturbed)


def _limited(trial: Trial, undisturbed: Undisturbed, kind: str, share: float) -> tuple[str, str]:
    """Let no file grow beyond a share of the largest, or let the directory be another user's."""
    largest = max(map(len, undisturbed.contents.values()))
    size = int(share * largest)
    forbids = kind == "forbidden"
    what = "in a directory of another user" if forbids else f"with files of at most {size} bytes"
    if forbids:
        trial.directory.chmod(0o555)
    ended = trial.start(prepare=_become_nobody if forbids else lambda: _limit(size)).wait()
    trial.directory.chmod(0o755)
    wrong = _refused(trial, undisturbed, ended)
    return what, wrong or trial.finished(undisturbed)


def _refused(trial: Trial, undisturbed: Undisturbed, ended: Ended) -> str:
    """What is wrong about the end of a command that lacked room, and about what it left."""
    if ended.code in trial.command.fine:
        return "" if contents(trial.directory) == undisturbed.contents else f"other bytes: {ended}"
    if not ended.sentence:
        return str(ended)
    left = {name for name in contents(trial.directory) if trial.command.before is None}
    if left and not trial.command.resumes and trial.command.name != "audit":
        return f"it left {', '.join(sorted(left)[:3])}"
    return trial.half_written(undisturbed) or trial.leftovers()


def _limit(size: int) -> None:
    """Let no file grow further, but for the one that is printed into."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(size, 4096), max(size, 4096)))


def _become_nobody() -> None:
    if os.getuid() == 0:
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


@contextmanager
def _disk(trial: Trial, needed: int) -> Iterator[None]:
    """A disk of its own below the directory of a trial."""
    trial.remove()
    trial.directory.mkdir()
    _mount(trial.directory, 2 * needed + SPARE)
    try:
        trial.prepare()
        yield
    finally:
        subprocess.run(["umount", "--lazy", trial.directory], check=False)


def _mount(directory: Path, size: int) -> None:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def _remount(directory: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", directory], check=True)


@cache
def _can_mount() -> bool:
    """Whether this user may mount a file system."""
    with tempfile.TemporaryDirectory() as place:
        try:
            _mount(Path(place), 2**20)
        except (OSError, subprocess.CalledProcessError):
            return False
        subprocess.run(["umount", place], check=True)
    return True
