"""Small commands that write, on small inputs: what each comes to undisturbed is what it must come to at last."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from reachcost_tools.faults.processes import Ended, Process
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


@dataclass
class Bench:
    """A directory with the inputs of commands and what each comes to undisturbed, made when it is first needed."""

    scratch: Path
    _undisturbed: dict[str, Undisturbed] = field(default_factory=dict)
    _number: int = 0

    @cached_property
    def inputs(self) -> Path:
        """What commands read."""
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
        assert self.inputs.exists()
        self._number += 1
        trial = Trial(command, self.scratch / f"{command.name}-{self._number}")
        trial.prepare()
        return trial

    def undisturbed(self, command: Command) -> Undisturbed:
        """What a command comes to, and how long it takes."""
        if command.name not in self._undisturbed:
            trial, began = self.new(command), time.monotonic()
            ended = trial.start().wait()
            assert ended.code in command.fine, f"{command.name}: {ended}"
            took = time.monotonic() - began
            size = sum(file.stat().st_blocks * 512 for file in trial.directory.rglob("*") if file.is_file())
            self._undisturbed[command.name] = Undisturbed(contents(trial.directory), took, size)
            trial.remove()
        return self._undisturbed[command.name]


@dataclass(frozen=True)
class Undisturbed:
    """What a command comes to if nothing goes wrong."""

    contents: dict[str, bytes]
    seconds: float
    size: int
    """Bytes on disk, with those of its cache."""


@dataclass(frozen=True)
class Trial:
    """A command in a directory of its own."""

    command: Command
    directory: Path

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
        """Begin the command; latents and temporary files are kept here, too."""
        places = {"REACHCOST_CACHE": str(self.directory / "cache"), "TMPDIR": str(self.directory / "tmp")}
        return Process(self.command.arguments, self.directory, {**places, **(environment or {})}, prepare, fresh)

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def renew_if_done(self, undisturbed: Undisturbed) -> None:
        """Begin again where the command has come to its end."""
        if contents(self.directory) == undisturbed.contents:
            self.remove()
            self.prepare()

    def half_written(self, undisturbed: Undisturbed) -> str:
        """What is wrong about files that are there before the end: each must be whole, or known to be unfinished."""
        wrong = [name for name, data in contents(self.directory).items() if undisturbed.contents.get(name) != data]
        return f"{', '.join(wrong[:3])} should not be there, or not like that" if wrong else ""

    def finished(self, undisturbed: Undisturbed, ended: Ended | None = None) -> str:
        """What is wrong about the end of the command, repeated if need be, that nothing disturbs any more."""
        if contents(self.directory) != undisturbed.contents or (self.command.resumes and self.leftovers()):
            ended = self.start().wait()
        if ended is not None and ended.code not in self.command.fine:
            return f"repeated, it failed: {ended}"
        found = contents(self.directory)
        wrong = [
            name
            for name in sorted({*found, *undisturbed.contents})
            if found.get(name) != undisturbed.contents.get(name)
        ]
        if wrong:
            return f"other bytes in {', '.join(wrong[:3])}"
        return self.leftovers()

    def leftovers(self) -> str:
        """What is wrong about files that nobody will use again."""
        left = [path for path in self.directory.rglob("*") if LEFT.fullmatch(path.name) and not _is_link(path)]
        left += [path for path in (self.directory / "tmp").iterdir() if not path.name.startswith(NOT_OURS)]
        return f"{len(left)} leftovers, {left[0].relative_to(self.directory)}" if left else ""


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
