"""The recorded runs of declared tables, below one output directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from reachcost.core.files import is_file_name
from reachcost.core.machine import versions
from reachcost.core.progress import Progress, as_progress
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import PENDING, Cell, RunSpec, StudyRef
from reachcost.experiments.study import Tables
from reachcost.results.records import Run, as_json, read_run, record_run, require_config

NUMERICS = ("torch", "numpy", "scipy")
"""Packages that numbers depend on: runs of different versions do not go into one table."""
Thing = TypeVar("Thing")
Variant = TypeVar("Variant", bound="Recording")


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
        self.computes = True
        """Whether a missing run is computed when it is read; otherwise reading it is an error."""
        self.used: dict[str, tuple[Cell, Run]] = {}
        """Every run that was read since the last `used.clear()`, by name."""
        self._made: dict[Any, Any] = {}

    def once(self, make: Callable[..., Thing], *given: Any) -> Thing:
        """Return what a function makes of this recording and arguments; it is called once."""
        if (make, given) not in self._made:
            self._made[make, given] = make(self, *given)
        return self._made[make, given]

    def derive(self, make: Callable[..., Variant], *given: Any) -> Variant:
        """Return the variant that a function at the top of a module makes, so that other processes can make it, too."""
        variant = self.once(make, *given)
        variant.reference = self.reference._replace(variants=(*self.reference.variants, (make, given)))
        return variant

    def cell(self, spec: RunSpec) -> Cell:
        """Return the cell of a run."""
        return Cell(self, spec)

    def cells(self, specs: Iterable[RunSpec]) -> list[Cell]:
        """Return the cells of runs."""
        return [*map(self.cell, specs)]

    def sha256(self, spec: RunSpec, file: str) -> str:
        """Return the sha256 of a file of another run, or `PENDING` while that run is not recorded."""
        cell = self.cell(spec)
        return self.read(spec).sha256[file] if self.computes or cell.recorded else PENDING

    def read(self, spec: RunSpec) -> Run:
        """Return a recorded run; a missing one is computed first, if that is allowed."""
        cell = self.cell(spec)
        if (run := self.find(cell)) is not None:
            return run
        if not self.computes:
            raise ReachcostError(
                f"{cell.name} is needed and not recorded: declare it among the runs of the table, or among the needs "
                "of the run that reads it"
            )
        self.progress.step(cell.path.name)
        return self._note(cell, record_run(cell.path, cell.config, cell.compute, spec.artefacts))

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
        _, run = self.used.get(cell.name) or (cell, read_run(cell.path))
        if PENDING not in json.dumps(as_json(config)):
            require_config(run, config)
        return self._note(cell, run)

    def _note(self, cell: Cell, run: Run) -> Run:
        if cell.name not in self.used:
            self._require_same(run.manifest["versions"], f"{cell.path} is")
            self.used[cell.name] = cell, run
        return run

    def _require_same(self, new: Mapping[str, str], what: str) -> None:
        """Refuse to mix runs of different numerical packages."""
        for _, run in [*self.used.values()][:1]:  # all others agree with it
            for name in NUMERICS:
                if (old := run.manifest["versions"].get(name)) != new.get(name):
                    raise ReachcostError(
                        f"{run.path} was made with {name} {old}, {what} of {new.get(name)}, and one table must not mix "
                        "them: choose another --out, or install the former"
                    )
