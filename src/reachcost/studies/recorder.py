"""Runs below one output directory, each computed once and then read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reachcost.base.machine import versions
from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.results.records import Columns, Run, record_run, require_config

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
        self._runs: dict[str, Run] = {}

    def run(
        self, name: str, config: Mapping[str, Any], compute: Callable[[Path], Columns], artefacts: Sequence[str] = ()
    ) -> Run:
        """Record one run, once; `config` holds everything its rows depend on."""
        path, title = self.out / "runs" / name, name.rpartition("/")[2]
        if name not in self._runs:
            if path.exists():
                self.progress.reused(title)
            else:
                self._require_same(versions(), "this would be")
            self.progress.step(title)
            found = record_run(path, config, compute, artefacts)
            self._require_same(found.manifest["versions"], f"{path} is")
            self._runs[name] = found
        else:
            require_config(self._runs[name], config)
        return self._runs[name]

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
