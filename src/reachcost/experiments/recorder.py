"""Runs below one output directory, each computed once and then read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from reachcost.core.files import is_file_name
from reachcost.core.machine import versions
from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.experiments.cells.cell import PENDING, Cell
from reachcost.results.records import Run, as_json, read_run, record_run, require_config

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
        self.computes = True
        """Whether a missing run is computed when it is read; otherwise reading it is an error."""
        self._used: dict[str, Run] = {}

    def find(self, cell: Cell) -> Run | None:
        """The recorded run of a cell, whose configuration must match; None if there is none."""
        if not all(map(is_file_name, cell.name.split("/"))):
            raise ReachcostError(
                f"the run {cell.name[:80]!r}, of {len(cell.name)} characters, cannot be the name of a directory: "
                "choose shorter names for models, sets and costs"
            )
        config = cell.config  # first, as it reads what the cell needs
        if not cell.recorded:
            self._require_same(versions(), "this would be")
            return None
        run = self._used.get(cell.name) or read_run(cell.path)
        if PENDING not in json.dumps(as_json(config)):
            require_config(run, config)
        return self._note(cell, run)

    def read(self, cell: Cell) -> Run:
        """The run of a cell; a missing one is computed first, or refused."""
        if (run := self.find(cell)) is not None:
            return run
        if not self.computes:
            raise ReachcostError(
                f"{cell.name} is needed and not recorded: declare it among the runs of the table, or among the needs "
                "of the run that reads it"
            )
        self.progress.step(cell.path.name)
        return self._note(cell, record_run(cell.path, cell.config, cell.compute, cell.spec.artefacts))

    def _note(self, cell: Cell, run: Run) -> Run:
        if cell.name not in self._used:
            self._require_same(run.manifest["versions"], f"{cell.path} is")
            self._used[cell.name] = run
        return run

    def used(self) -> list[Run]:
        """Every run that was read, in that order."""
        return [*self._used.values()]

    def forget(self) -> None:
        """Begin anew to note which runs are read."""
        self._used.clear()

    def _require_same(self, new: Mapping[str, str], what: str) -> None:
        """Refuse to mix runs of different numerical packages."""
        for run in [*self._used.values()][:1]:  # all others agree with it
            made_with = run.manifest["versions"]
            if (other := next((name for name in NUMERICS if made_with.get(name) != new.get(name)), None)) is not None:
                versions_differ = f"{other} {made_with.get(other)}, {what} of {new.get(other)}"
                raise ReachcostError(
                    f"{run.path} was made with {versions_differ}, and one table must not mix them: choose another "
                    "--out, or install the former"
                )
