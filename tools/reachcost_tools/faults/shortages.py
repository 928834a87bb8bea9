"""Full and read-only disks, and too little memory: one sentence or the right bytes, and nothing half-written.

If no file system can be mounted, a limit on the size of files replaces the full disk.
"""

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

SPARE = 64 * 2**20
"""Bytes of every mounted disk beyond twice what the command needs."""
MOST_MEMORY = 300 * 2**20
"""Bytes in addition to those of imports that are enough for most commands."""
NOBODY = 65534


def _little_room(trial: Trial, rng: Generator, number: int) -> tuple[str, str]:
    """Run a command without room for all it writes, then once more with room."""
    kinds = ("full", "limit", "full", "read-only") if _can_mount() else ("limit", "limit", "forbidden")
    kind, share = kinds[number // len(disks.turns) % len(kinds)], float(rng.random()) ** 2
    if kind == "full":
        with _disk(trial):
            free = int(share * trial.expected.size) // 4096 * 4096
            ballast = trial.directory / "tmp" / "torchinductor_ballast"
            with ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, os.statvfs(trial.directory).f_bavail * 4096 - free)
            wrong = _error_without_room(trial)
            ballast.unlink()
            return f"on a disk with room for {free} bytes", wrong or trial.finished()
    if kind == "read-only":
        with _disk(trial):
            _remount(trial.directory, "ro")
            wrong = _error_without_room(trial)
            _remount(trial.directory, "rw")
            return "on a disk that is read only", wrong or trial.finished()
    if kind == "forbidden":
        trial.directory.chmod(0o555)
        wrong = _error_without_room(trial, _become_nobody)
        trial.directory.chmod(0o755)
        return "in a directory of another user", wrong or trial.finished()
    size = int(share * max(map(len, trial.expected.contents.values())))
    wrong = _error_without_room(trial, lambda: _limit(resource.RLIMIT_FSIZE, max(size, 4096)))
    return f"with files of at most {size} bytes", wrong or trial.finished()


def _error_without_room(trial: Trial, prepare: Callable[[], object] | None = None) -> str:
    """What is wrong about the end of a command that lacked room, and about what it left."""
    ended = trial.start(prepare=prepare).wait()
    if (wrong := trial.error(ended)) or ended.code in trial.command.fine:
        return wrong
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
    _mount(trial.directory, 2 * trial.expected.size + SPARE)
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

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + more)

    process = trial.start(prepare=limit)
    wrong = trial.error(process.wait()) or process.orphans()
    what = f"with {more >> 10} kB in addition to the imports"
    return what, wrong or trial.half_written() or trial.finished()


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
