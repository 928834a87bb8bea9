"""Full and read-only disks, and too little memory: one sentence or the right bytes, and nothing half-written.

Where file systems cannot be mounted, a limit on the size of files stands for the full disk.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from numpy.random import Generator

from reachcost_tools.faults.commands import Disturbance, Trial, contents
from reachcost_tools.faults.processes import Ended

SPARE = 64 * 2**20
"""Bytes of every mounted disk beyond twice what the command needs."""
MOST_MEMORY = 300 * 2**20
"""Bytes in addition to those of imports that are enough for most commands."""
NOBODY = 65534


def _little_room(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    """Run a command without room for all it writes, then once more with room."""
    kinds = ("full", "limit", "full", "read-only") if _can_mount() else ("limit", "limit", "forbidden")
    kind, share = kinds[number // len(disks.turns) % len(kinds)], float(rng.random()) ** 2
    if kind in ("full", "read-only"):
        with _disk(trial):
            return _on_a_disk(trial, kind, share)
    return _limited(trial, kind, share)


def _on_a_disk(trial: Trial, kind: str, share: float) -> tuple[str, str]:
    """Fill the disk up to a share of what is needed, or make it read only; undo that, and repeat."""
    free = int(share * trial.undisturbed.size) // 4096 * 4096
    ballast = trial.directory / "tmp" / "torchinductor_ballast"
    if kind == "read-only":
        what = "on a disk that is read only"
        _remount(trial.directory, "ro")
    else:
        what = f"on a disk with room for {free} bytes"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, os.statvfs(trial.directory).f_bavail * 4096 - free)
    wrong = _refused(trial, trial.start().wait())
    if kind == "read-only":
        _remount(trial.directory, "rw")
    else:
        ballast.unlink()
    return what, wrong or trial.finished()


def _limited(trial: Trial, kind: str, share: float) -> tuple[str, str]:
    """Limit files to a share of the largest, or run in a directory of another user."""
    size = int(share * max(map(len, trial.undisturbed.contents.values())))
    if kind == "forbidden":
        what, prepare = "in a directory of another user", _become_nobody
        trial.directory.chmod(0o555)
    else:
        what, prepare = f"with files of at most {size} bytes", lambda: _limit(resource.RLIMIT_FSIZE, max(size, 4096))
    ended = trial.start(prepare=prepare).wait()
    trial.directory.chmod(0o755)
    return what, _refused(trial, ended) or trial.finished()


def _refused(trial: Trial, ended: Ended) -> str:
    """What is wrong about the end of a command that lacked room, and about what it left."""
    if ended.code in trial.command.fine:
        return "" if contents(trial.directory) == trial.undisturbed.contents else f"other bytes: {ended}"
    if not ended.sentence:
        return str(ended)
    left = () if trial.command.before else contents(trial.directory)
    if left and not trial.command.resumes and trial.command.name != "audit":
        return f"it left {', '.join(sorted(left)[:3])}"
    return trial.half_written() or trial.leftovers()


def _limit(what: int, size: int) -> None:
    resource.setrlimit(what, (size, size))


def _become_nobody() -> None:
    if os.getuid() == 0:
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


@contextmanager
def _disk(trial: Trial) -> Iterator[None]:
    """A new disk at the directory of a trial."""
    trial.remove()
    trial.directory.mkdir()
    _mount(trial.directory, 2 * trial.undisturbed.size + SPARE)
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


def _little_memory(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    """Run a command with a limited address space, then once more without limit."""
    more = int(MOST_MEMORY * float(rng.random()) ** 3)
    process = trial.start(prepare=_limit_memory(more))
    ended = process.wait()
    if ended.code in trial.command.fine:
        wrong = "" if contents(trial.directory) == trial.undisturbed.contents else f"other bytes: {ended}"
    else:
        wrong = "" if ended.sentence else str(ended)
    what = f"with {more >> 10} kB beyond what imports take"
    return what, wrong or process.orphans() or trial.half_written() or trial.finished()


def _limit_memory(more: int) -> Callable[[], None]:
    """Function that leaves a process this number of bytes in addition to those it has."""

    def prepare() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + more)

    return prepare


disks = Disturbance(
    "disk",
    ("logs", "frames", "sweep", "audit", "report", "fit", "workers", "reproduce", "train-model"),
    _little_room,
)
memory = Disturbance(
    "memory",
    ("fit", "frames", "sweep", "audit", "logs", "report", "train-model", "sweep", "reproduce", "logs", "workers"),
    _little_memory,
)
