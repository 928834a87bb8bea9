"""Runs below one output directory, each computed once and then read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reachcost.base.machine import versions
from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.results.records import Compute, Run, read_run, record_run, require_config
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.waiting import AwaitedRun

NUMERICS = ("torch", "numpy", "scipy")
"""Packages that numbers depend on: runs of different ones do not go into one table."""


class Recorder:
    """Records runs in `out/runs`.

    Args:
        out: The output directory.
        progress: Where to show progress.
    """

    def __init__(self, out: Path, progress: Progress) -> None:
        self.out, self.progress = out, progress
        self.missing: Callable[[Cell], Run] = self._record
        """What is done about a run that is not there: it is computed on the spot, unless told otherwise."""
        self.remade: dict[Path, Cell] = {}
        """Runs that were asked for and whose artefacts may have to be made again, there or not."""
        self._runs: dict[str, Run] = {}

    def run(self, name: str, config: Mapping[str, Any], compute: Compute, artefacts: Sequence[str] = ()) -> Run:
        """Record one run, once; `config` holds everything its rows depend on."""
        cell = Cell(name, self.out / "runs" / name, config, compute, tuple(artefacts))
        if artefacts:
            self.remade.setdefault(cell.path, cell)
        found = self._runs.get(name) or (read_run(cell.path) if cell.path.exists() else None)
        if found is None:
            self._require_same(versions(), "this would be")
            found = self.missing(cell)
        elif not cell.awaits:
            require_config(found, config)
        if name not in self._runs and not isinstance(found, AwaitedRun):
            self._require_same(found.manifest["versions"], f"{cell.path} is")
            self._runs[name] = found
        return found

    def _record(self, cell: Cell) -> Run:
        self.progress.step(cell.path.name)
        return record_run(cell.path, cell.config, cell.compute, cell.artefacts)

    def used(self) -> list[Run]:
        """Every run that was asked for, in that order."""
        return list(self._runs.values())

    def _require_same(self, new: Mapping[str, str], what: str) -> None:
        """Refuse to mix runs of different numerical packages."""
        for run in self._runs.values():
            made_with = run.manifest["versions"]
            if (other := next((name for name in NUMERICS if made_with.get(name) != new.get(name)), None)) is not None:
                versions_differ = f"{other} {made_with.get(other)}, {what} of {new.get(other)}"
                raise ReachcostError(
                    f"{run.path} was made with {versions_differ}, and one table must not mix them: choose another "
                    "--out, or install the former"
                )
            return
