"""Cells and recordings: the runs of a study, declared as data, and their records."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from reachcost.core.files import is_file_name
from reachcost.core.machine import versions
from reachcost.core.progress import Progress, as_progress
from reachcost.errors import ReachcostError
from reachcost.results.records import (
    Columns,
    Evaluated,
    Result,
    Run,
    as_json,
    is_recorded,
    keep_run,
    read_run,
    require_config,
)

if TYPE_CHECKING:
    from reachcost.experiments.study import Tables

PENDING = "not recorded yet"
"""Stands in a configuration for the sha256 of a file whose run is not recorded."""
NUMERICS = ("torch", "numpy", "scipy")
"""Packages that numbers depend on: runs of different versions do not go into one table."""
Thing = TypeVar("Thing")
Variant = TypeVar("Variant", bound="Recording")


class RunSpec(ABC):
    """A declared run: a frozen dataclass of plain values, which can be sent to another process."""

    kind: ClassVar[str]
    """The directory of its records: heads, control, ..."""
    artefacts: ClassVar[tuple[str, ...]] = ()
    """Files of the run that need not be kept."""

    @abstractmethod
    def name(self, recording: Any) -> str:
        """Return the name of the run among those of its kind."""

    def needs(self, recording: Any) -> Sequence[RunSpec]:
        """Return other runs of the same study that `config` and `compute` read."""
        return ()

    @abstractmethod
    def config(self, recording: Any) -> dict[str, Any]:
        """Return everything that the rows depend on; files of needed runs by their sha256 (`recording.sha256`)."""

    @abstractmethod
    def compute(self, recording: Any, directory: Path) -> Columns | Evaluated:
        """Return the rows; write further files into the directory."""


class StudyRef(NamedTuple):
    """A study by the function that returns it, so that another process can build it again."""

    study: Callable[..., Tables]
    """A function at the top of a module."""
    arguments: tuple[Any, ...] = ()
    episodes: int | None = None
    """Maximum number of episodes of every evaluation set."""
    variants: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = ()
    """Functions that derive a variant of the study, one after the other, and their arguments."""
    reads: tuple[str, ...] = ()
    """The user's files and directories that the study reads, as the user wrote their paths."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A declared run of a study."""

    recording: Recording
    spec: RunSpec

    @cached_property
    def name(self) -> str:
        """`<study>/<kind>/<run>`, below `runs` of the output directory."""
        return f"{self.recording.study.name}/{self.spec.kind}/{self.spec.name(self.recording)}"

    @cached_property
    def path(self) -> Path:
        """Directory of its record."""
        return self.recording.out / "runs" / self.name

    @cached_property
    def needs(self) -> tuple[Cell, ...]:
        """The cells that must be recorded before this one is computed."""
        return tuple(map(self.recording.cell, self.spec.needs(self.recording)))

    @property
    def config(self) -> dict[str, Any]:
        """Everything that its rows depend on; `PENDING` stands for files of runs that are not recorded yet."""
        return self.spec.config(self.recording)

    @property
    def recorded(self) -> bool:
        """Whether there is a record."""
        return is_recorded(self.path)

    @property
    def complete(self) -> bool:
        """Whether it is recorded with all its artefacts."""
        return self.recorded and all((self.path / name).exists() for name in read_run(self.path).manifest["artefacts"])

    def read(self) -> Run:
        """Return its record; see `Recording.read`."""
        return self.recording.read(self.spec)

    def compute(self, directory: Path) -> Columns | Evaluated:
        """Compute the rows."""
        return self.spec.compute(self.recording, directory)

    def record(self, result: Result) -> None:
        """Record a result; if the run is recorded already, only its missing artefacts."""
        if self.recorded:
            read_run(self.path).complete(result.place)
        else:
            keep_run(self.path, self.config, result, self.spec.artefacts)

    def message(self) -> bytes:
        """Return what a worker needs to compute the cell: its study, its run, and the configuration to compare."""
        try:
            return pickle.dumps((self.recording.reference, self.spec, as_json(self.config)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ReachcostError(
                f"{self.name} cannot be sent to another process ({error}): let a function at the top of a module "
                "return the study, and let its runs hold plain values"
            ) from error


class Recording:
    """Reads and records the runs of declared tables in `out/runs`, and notes which runs are read.

    Args:
        study: The declared tables.
        out: The output directory.
        progress: Where to show progress; True for the terminal.
        episodes: Maximum number of episodes of every evaluation set, spread over it.
    """

    def __init__(
        self, study: Tables, out: Path, progress: Progress | bool | None = None, episodes: int | None = None
    ) -> None:
        self.study, self.out, self.progress, self._episodes = study, out, as_progress(progress), episodes
        self.reference = StudyRef(lambda: study, episodes=episodes)
        """How another process builds the study."""
        self.runs: dict[str, tuple[Cell, Run]] = {}
        """Every run that was read since the last `runs.clear()`, by name."""
        self._made: dict[Any, Any] = {}

    def once(self, make: Callable[..., Thing], *arguments: Any) -> Thing:
        """Return what a function makes of this recording and arguments; it is called once."""
        if (make, arguments) not in self._made:
            self._made[make, arguments] = make(self, *arguments)
        return self._made[make, arguments]

    def derive(self, make: Callable[..., Variant], *arguments: Any) -> Variant:
        """Return the variant that a function at the top of a module makes, so that other processes can make it, too."""
        variant = self.once(make, *arguments)
        variant.reference = self.reference._replace(variants=(*self.reference.variants, (make, arguments)))
        return variant

    def cell(self, spec: RunSpec) -> Cell:
        """Return the cell of a run."""
        return Cell(self, spec)

    def cells(self, specs: Iterable[RunSpec]) -> list[Cell]:
        """Return the cells of runs."""
        return [*map(self.cell, specs)]

    def sha256(self, spec: RunSpec, file: str) -> str:
        """Return the sha256 of a file of another run, or `PENDING` while that run is not recorded."""
        return self.read(spec).sha256[file] if self.cell(spec).recorded else PENDING

    def read(self, spec: RunSpec) -> Run:
        """Return a recorded run."""
        cell = self.cell(spec)
        if (run := self.find(cell)) is None:
            raise ReachcostError(
                f"{cell.name} is needed and not recorded: declare it among the runs of the table, or among the needs "
                "of the run that reads it"
            )
        return run

    def find(self, cell: Cell) -> Run | None:
        """Return the recorded run of a cell, whose configuration must match, or None."""
        if not all(map(is_file_name, cell.name.split("/"))):
            raise ReachcostError(
                f"the run {cell.name[:80]!r}, of {len(cell.name)} characters, cannot be the name of a directory: "
                "choose shorter names for models, sets and costs"
            )
        config = cell.config  # first, as it reads what the cell needs
        if not cell.recorded:
            self._require_same(versions(), "this would be")
            return None
        _, run = self.runs.get(cell.name) or (cell, read_run(cell.path))
        if PENDING not in json.dumps(as_json(config)):
            require_config(run, config)
        if cell.name not in self.runs:
            self._require_same(run.manifest["versions"], f"{cell.path} is")
            self.runs[cell.name] = cell, run
        return run

    def _require_same(self, new: Mapping[str, str], what: str) -> None:
        """Refuse to mix runs of different numerical packages."""
        for _, run in [*self.runs.values()][:1]:  # all others agree with it
            for name in NUMERICS:
                if (old := run.manifest["versions"].get(name)) != new.get(name):
                    raise ReachcostError(
                        f"{run.path} was made with {name} {old}, {what} of {new.get(name)}, and one table must not mix "
                        "them: choose another --out, or install the former"
                    )


def with_needs(cells: Iterable[Cell]) -> dict[Path, Cell]:
    """Return cells and all that they need, needs first; refuse records of another configuration."""
    found: dict[Path, Cell] = {}

    def visit(cell: Cell) -> None:
        known = found.get(cell.path)
        if known is None:
            for need in cell.needs:
                visit(need)
            cell.recording.find(cell)
            found[cell.path] = cell
        elif known.recording is not cell.recording or known.spec != cell.spec:
            require_config(Run(cell.path, {"config": as_json(known.config)}), cell.config)

    for cell in cells:
        visit(cell)
    return found


def missing_of(cells: Mapping[Path, Cell]) -> dict[Path, Cell]:
    """Return the cells to compute, needs first: those without a record, and their needs that lost an artefact."""
    missing: dict[Path, Cell] = {}
    needed: set[Path] = set()
    for path, cell in reversed([*cells.items()]):
        if not cell.recorded or (path in needed and not cell.complete):
            missing[path] = cell
            needed |= {need.path for need in cell.needs}
    return dict(reversed([*missing.items()]))
