"""Small commands that write files: disturbed and repeated, each must arrive at the undisturbed bytes."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost_tools.faults import DATA
from reachcost_tools.faults.classes import Attempt
from reachcost_tools.faults.processes import Ended, Process
from reachcost_tools.pack import drop

ROOT = Path(__file__).parents[3]
SWEEP = (DATA / "sweep.toml").read_text().replace("WORLD", str(ROOT / "tests" / "toy.py"))
LOGS = ("logs", "generate", "tworoom", "--out")
LEARN = ("--model", "lewm-tworoom-3072", "--logs", "../inputs/logs.h5", "--task", "tworoom")
AUDIT = ("--episodes", "2", "--candidates", "8", "--iterations", "1", "--no-criteria")
SWEEPING = ("sweep", "../inputs/keys.toml", "--trust", "--out", "out")
TRAIN = (
    *("train-model", "lewm", "--logs", "../inputs/logs.h5", "--task", "tworoom", "--out", "model"),
    *("--steps", "1", "--refinement", "1", "--threads", "1"),
)
KEPT = ("cache", "tmp")
"""Directories next to the outputs: cached latents and temporary files."""
NOT_OURS = ("pymp-", "torchinductor_")
"""Temporary files of Python and torch."""
LEFT = re.compile(r"\..+\.[0-9a-f]{32}\.partial")
SECONDS = re.compile(rb'("(?:elapsed_)?seconds": |^\* Time: )[\d.]+', re.MULTILINE)
SEAL = re.compile(rb'^  "sha256": ".*"$', re.MULTILINE)
"""The checksum of a world model, which covers the seconds of its training."""


@dataclass(frozen=True)
class Command:
    """A command that takes seconds, in an empty directory next to `inputs`."""

    name: str
    arguments: tuple[str, ...]
    fine: tuple[int, ...] = (0,)
    """Its exit codes without a fault."""
    resumes: bool = False
    """Whether it keeps finished parts of its work and uses them when it is repeated."""
    before: Callable[[Path], object] | None = None
    """Writes files that it needs into its directory."""


def _recorded(directory: Path) -> None:
    """Copy the published runs of a table without some of them."""
    runs = directory / "out" / "runs"
    shutil.copytree(ROOT / "results" / "runs" / "toponav", runs / "toponav")
    for names in ("toponav/sasc/*-raw", "toponav/control/*-random"):
        drop(directory / "out", names)


COMMANDS = {
    command.name: command
    for command in (
        Command("logs", (*LOGS, "logs.h5", "--episodes", "20")),
        Command("frames", (*LOGS, "frames.h5", "--episodes", "20", "--pixels", "64")),
        Command("fit", ("fit", *LEARN, "--labels", "temporal", "--pairs", "200", "--out", "head")),
        Command("audit", ("audit", *LEARN, *AUDIT, "--out", "audit.json"), fine=(0, 3, 4)),
        Command("report", ("report", "../inputs/audit.json", "../inputs/head", "--out", "report.html")),
        Command("sweep", SWEEPING, resumes=True),
        Command("workers", (*SWEEPING, "--on", "local", "--workers", "2"), resumes=True),
        Command("reproduce", ("reproduce", "toponav", "--out", "out"), resumes=True, before=_recorded),
        Command("train-model", TRAIN, resumes=True),
    )
}


@dataclass(frozen=True)
class Expected:
    """Outcome of a command without a fault."""

    contents: dict[str, bytes]
    seconds: float
    size: int
    """Bytes on disk, its cache included."""


@dataclass(frozen=True)
class Trial:
    """A command in a new directory, and its expected outcome."""

    command: Command
    directory: Path
    expected: Expected

    def prepare(self) -> None:
        """Create the directory and the files that the command finds there."""
        for name in KEPT:
            (self.directory / name).mkdir(parents=True)
        if self.command.before is not None:
            self.command.before(self.directory)

    def start(self, environment: Mapping[str, str] | None = None, **options: Any) -> Process:
        """Start the command, with its latents and temporary files in the directory; options are those of `Process`."""
        places = {"REACHCOST_CACHE": str(self.directory / "cache"), "TMPDIR": str(self.directory / "tmp")}
        return Process(self.command.arguments, self.directory, {**places, **(environment or {})}, **options)

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def complete(self) -> bool:
        """Whether the directory has the expected content."""
        return contents(self.directory) == self.expected.contents

    def renew_if_done(self) -> None:
        """Start again if the command has finished."""
        if self.complete():
            self.remove()
            self.prepare()

    def error(self, ended: Ended) -> str:
        """What is wrong about an end that must be success with the expected bytes, or one sentence."""
        if ended.code in self.command.fine:
            return "" if self.complete() else f"other bytes: {ended}"
        return "" if ended.sentence else str(ended)

    def half_written(self) -> str:
        """What is wrong about files before the end: each must be complete, or marked as unfinished."""
        expected = self.expected.contents
        wrong = [name for name, data in contents(self.directory).items() if expected.get(name) != data]
        return f"{', '.join(wrong[:3])} should not exist, or has other content" if wrong else ""

    def differences(self) -> str:
        """What differs from the expected bytes."""
        found, expected = contents(self.directory), self.expected.contents
        wrong = [name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)]
        return f"other bytes in {', '.join(wrong[:3])}" if wrong else ""

    def finished(self) -> str:
        """What is wrong about the end of the command, which is repeated without a fault if it has not finished."""
        if self.differences() or (self.command.resumes and self.leftovers()):
            ended = self.start().wait()
            if ended.code not in self.command.fine:
                return f"repeated, it failed: {ended}"
        return self.differences() or self.leftovers()

    def leftovers(self) -> str:
        """Unfinished and temporary files that nobody will use again."""
        left = [path for path in self.directory.rglob("*") if LEFT.fullmatch(path.name) and not _is_link(path)]
        left += [path for path in (self.directory / "tmp").iterdir() if not path.name.startswith(NOT_OURS)]
        return f"{len(left)} leftovers, {left[0].relative_to(self.directory)}" if left else ""


class Bench:
    """A directory with the inputs of commands, and their outcomes without faults, each made on first use."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self._number = scratch, 0
        self._expected: dict[str, Expected] = {}

    @cached_property
    def inputs(self) -> Path:
        """Directory of the files that commands read."""
        made = self.scratch / "inputs"
        made.mkdir(parents=True)
        (made / "keys.toml").write_text(SWEEP)
        for name in ("logs", "fit", "audit"):
            command = COMMANDS[name]
            ended = Process(command.arguments, made, {"REACHCOST_CACHE": str(self.scratch / "kept")}).wait()
            assert ended.code in command.fine, f"{command.name}: {ended}"
        return made

    def new(self, command: Command) -> Trial:
        """A new directory for a command."""
        if command.name not in self._expected:
            self._expected[command.name] = self._run(self._trial(command, Expected({}, 0.0, 0)))
        return self._trial(command, self._expected[command.name])

    def _trial(self, command: Command, expected: Expected) -> Trial:
        assert self.inputs.exists()
        self._number += 1
        trial = Trial(command, self.scratch / f"{command.name}-{self._number}", expected)
        trial.prepare()
        return trial

    def _run(self, trial: Trial) -> Expected:
        began, ended = time.monotonic(), trial.start().wait()
        assert ended.code in trial.command.fine, f"{trial.command.name}: {ended}"
        seconds = time.monotonic() - began
        size = sum(file.stat().st_blocks * 512 for file in trial.directory.rglob("*") if file.is_file())
        outcome = Expected(contents(trial.directory), seconds, size)
        trial.remove()
        return outcome


@dataclass(frozen=True)
class Disturbance:
    """A class of faults that disturbs small commands, each in a new directory."""

    purpose: str
    """Name of its random stream."""
    turns: tuple[str, ...]
    """Commands in the order of attempts."""
    disturb: Callable[[Trial, Generator, int], tuple[str, str]]
    """Disturbs a trial with the n-th fault; returns what was done, and what is wrong about the outcome."""

    def __call__(self, count: int, scratch: Path) -> Iterator[Attempt]:
        """Make attempts in a directory."""
        bench = Bench(scratch)
        for number in range(count):
            yield self.attempt(bench, number)

    def attempt(self, bench: Bench, number: int) -> Attempt:
        """Make the n-th attempt."""
        trial = bench.new(COMMANDS[self.turns[number % len(self.turns)]])
        try:
            what, wrong = self.disturb(trial, generator(number, self.purpose), number)
        finally:
            trial.remove()
        return Attempt(f"try {number}: {trial.command.name}, {what}", wrong)


def _is_link(path: Path) -> bool:
    """Whether it is another name of a complete file."""
    return path.is_file() and path.stat().st_nlink > 1


def contents(directory: Path) -> dict[str, bytes]:
    """Content of every file that a command wrote, without measured seconds, locks and unfinished files."""
    found = {}
    for place, folders, files in os.walk(directory):
        kept = KEPT if Path(place) == directory else ()
        folders[:] = [name for name in folders if name not in kept and not LEFT.fullmatch(name)]
        for name in files:
            path = Path(place) / name
            if name not in (".lock", "training.pt") and not LEFT.fullmatch(name):
                found[str(path.relative_to(directory))] = _without_seconds(path)
    return found


def _without_seconds(path: Path) -> bytes:
    """The content of a file without measured seconds."""
    data = path.read_bytes()
    if path.name == "curve.csv":
        return b"\n".join(line.rpartition(b",")[0] for line in data.splitlines())
    if path.suffix in (".json", ".md"):
        without = SECONDS.sub(rb"\1", data)
        return SEAL.sub(b"", without) if path.name == "config.json" and without != data else without
    return data
