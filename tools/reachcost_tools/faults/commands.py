"""Small commands that write files, on small inputs: disturbed and repeated, each must give the undisturbed bytes."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost_tools.faults.classes import Attempt
from reachcost_tools.faults.processes import Process
from reachcost_tools.pack import drop

ROOT = Path(__file__).parents[3]
WORLD = ROOT / "tests" / "toy.py"
SWEEP = f"""
task = "{WORLD}:Corridor"
models = ["{WORLD}:Sketch"]
logs = {{episodes = 40}}
episodes = 2
budgets = [4]
[heads.trm]
labels = ["temporal", "stitched"]
pairs = 200
validation = 100
recipe = {{epochs = 1, hidden = 8}}
[planners.quick]
horizon = 4
candidates = 8
iterations = 1
elites = 4
"""
LOGS = ("logs", "generate", "tworoom", "--out")
LEARN = ("--model", "lewm-tworoom-3072", "--logs", "../inputs/logs.h5", "--task", "tworoom")
KEPT = ("cache", "tmp")
"""Directories beside the outputs: latents that can be made again, and what is temporary."""
NOT_OURS = ("pymp-", "torchinductor_")
"""What Python and torch keep among temporary files."""
LEFT = re.compile(r"\..+\.[0-9a-f]{32}\.partial")
SECONDS = re.compile(rb'("(?:elapsed_)?seconds": |^\* Time: )[\d.]+', re.MULTILINE)
SEAL = re.compile(rb'^  "sha256": ".*"$', re.MULTILINE)
"""The checksum of a world model, which covers the seconds of its training."""


@dataclass(frozen=True)
class Command:
    """A command of seconds, which is run in an empty directory beside `inputs`."""

    name: str
    arguments: tuple[str, ...]
    fine: tuple[int, ...] = (0,)
    """How it ends if nothing goes wrong."""
    resumes: bool = False
    """Whether it keeps finished pieces of its work, and uses them when it is repeated."""
    before: Callable[[Path], object] | None = None
    """Puts into its directory what is there before it runs."""


def _recorded(directory: Path) -> None:
    """The published runs of a table, some of them missing."""
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
        Command(
            "audit",
            (
                *("audit", *LEARN, "--episodes", "2", "--candidates", "8", "--iterations", "1", "--no-criteria"),
                *("--out", "audit.json"),
            ),
            fine=(0, 3, 4),
        ),
        Command("report", ("report", "../inputs/audit.json", "../inputs/head", "--out", "report.html")),
        Command("sweep", ("sweep", "../inputs/keys.toml", "--trust", "--out", "out"), resumes=True),
        Command(
            "workers",
            ("sweep", "../inputs/keys.toml", "--trust", "--out", "out", "--on", "local", "--workers", "2"),
            resumes=True,
        ),
        Command("reproduce", ("reproduce", "toponav", "--out", "out"), resumes=True, before=_recorded),
        Command(
            "train-model",
            (
                *("train-model", "lewm", "--logs", "../inputs/logs.h5", "--task", "tworoom", "--out", "model"),
                *("--steps", "1", "--refinement", "1", "--threads", "1"),
            ),
            resumes=True,
        ),
    )
}


@dataclass(frozen=True)
class Undisturbed:
    """Outcome of a command without a fault."""

    contents: dict[str, bytes]
    seconds: float
    size: int
    """Bytes on disk, its cache included."""


@dataclass
class Bench:
    """A directory with the inputs of commands and their undisturbed outcomes, each made when it is first needed."""

    scratch: Path
    _undisturbed: dict[str, Undisturbed] = field(default_factory=dict)
    _number: int = 0

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
        if command.name not in self._undisturbed:
            self._undisturbed[command.name] = self._run(command)
        return self._trial(command)

    def undisturbed(self, command: Command) -> Undisturbed:
        """The undisturbed outcome of a command that has a trial."""
        return self._undisturbed[command.name]

    def _trial(self, command: Command) -> Trial:
        assert self.inputs.exists()
        self._number += 1
        trial = Trial(command, self.scratch / f"{command.name}-{self._number}", self)
        trial.prepare()
        return trial

    def _run(self, command: Command) -> Undisturbed:
        trial, began = self._trial(command), time.monotonic()
        ended = trial.start().wait()
        assert ended.code in command.fine, f"{command.name}: {ended}"
        seconds = time.monotonic() - began
        size = sum(file.stat().st_blocks * 512 for file in trial.directory.rglob("*") if file.is_file())
        outcome = Undisturbed(contents(trial.directory), seconds, size)
        trial.remove()
        return outcome


@dataclass(frozen=True)
class Trial:
    """A command in a new directory."""

    command: Command
    directory: Path
    bench: Bench

    @property
    def undisturbed(self) -> Undisturbed:
        """What the command must come to."""
        return self.bench.undisturbed(self.command)

    def prepare(self) -> None:
        """Put into the directory what is there before the command."""
        for name in KEPT:
            (self.directory / name).mkdir(parents=True)
        if self.command.before is not None:
            self.command.before(self.directory)

    def start(
        self,
        prepare: Callable[[], object] | None = None,
        fresh: bool = False,
        environment: dict[str, str] | None = None,
    ) -> Process:
        """Start the command, with its latents and temporary files in the directory."""
        places = {"REACHCOST_CACHE": str(self.directory / "cache"), "TMPDIR": str(self.directory / "tmp")}
        return Process(self.command.arguments, self.directory, {**places, **(environment or {})}, prepare, fresh)

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def renew_if_done(self) -> None:
        """Begin again if the command has come to its end."""
        if contents(self.directory) == self.undisturbed.contents:
            self.remove()
            self.prepare()

    def half_written(self) -> str:
        """What is wrong about files before the end: each must be complete, or known to be unfinished."""
        expected = self.undisturbed.contents
        wrong = [name for name, data in contents(self.directory).items() if expected.get(name) != data]
        return f"{', '.join(wrong[:3])} should not be there, or not like that" if wrong else ""

    def differences(self) -> str:
        """What differs from the undisturbed bytes."""
        found, expected = contents(self.directory), self.undisturbed.contents
        wrong = [name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)]
        return f"other bytes in {', '.join(wrong[:3])}" if wrong else ""

    def finished(self) -> str:
        """What is wrong about the end of the command, repeated without a fault if it is not there yet."""
        if self.differences() or (self.command.resumes and self.leftovers()):
            ended = self.start().wait()
            if ended.code not in self.command.fine:
                return f"repeated, it failed: {ended}"
        return self.differences() or self.leftovers()

    def leftovers(self) -> str:
        """What is wrong about files that nobody will use again."""
        left = [path for path in self.directory.rglob("*") if LEFT.fullmatch(path.name) and not _is_link(path)]
        left += [path for path in (self.directory / "tmp").iterdir() if not path.name.startswith(NOT_OURS)]
        return f"{len(left)} leftovers, {left[0].relative_to(self.directory)}" if left else ""


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
    """Whether it is only another name of a file that is whole."""
    return path.is_file() and path.stat().st_nlink > 1


def contents(directory: Path) -> dict[str, bytes]:
    """Every byte of what a command made, but for the seconds that it took; neither locks nor unfinished pieces."""
    found = {}
    for place, folders, files in os.walk(directory):
        folders[:] = [
            name for name in folders if not LEFT.fullmatch(name) and not (name in KEPT and Path(place) == directory)
        ]
        for name in files:
            path = Path(place) / name
            if name not in (".lock", "training.pt") and not LEFT.fullmatch(name):
                found[str(path.relative_to(directory))] = _timeless(path)
    return found


def _timeless(path: Path) -> bytes:
    """The content of a file without the seconds that something took."""
    data = path.read_bytes()
    if path.name == "curve.csv":
        return b"\n".join(line.rpartition(b",")[0] for line in data.splitlines())
    if path.suffix in (".json", ".md"):
        timeless = SECONDS.sub(rb"\1", data)
        return SEAL.sub(b"", timeless) if path.name == "config.json" and timeless != data else timeless
    return data
