"""Runs below one output directory, each computed once and then read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.base.progress import Progress
from reachcost.heads.base import LearnedHead
from reachcost.heads.storage import load_head, write_head
from reachcost.repair.fitting import Recipe, fit
from reachcost.repair.pairs import Pairs
from reachcost.results.records import Columns, Run, record_run


class Recorder:
    """Records runs in `out/runs`.

    Args:
        out: The output directory.
        progress: Where to show progress.
    """

    def __init__(self, out: Path, progress: Progress) -> None:
        self.out, self.progress = out, progress
        self._runs: dict[str, Run] = {}

    def run(self, name: str, config: Mapping[str, Any], compute: Callable[[Path], Columns]) -> Run:
        """Record one run, once; `config` holds everything its rows depend on."""
        path, title = self.out / "runs" / name, name.partition("/")[2]
        if name not in self._runs:
            if path.exists():
                self.progress.reused(title)
            self.progress.step(title)
        self._runs[name] = record_run(path, config, compute)
        return self._runs[name]

    def used(self) -> list[Run]:
        """Every run that was asked for, in that order."""
        return list(self._runs.values())

    def head(self, name: str, config: Mapping[str, Any], pairs: Callable[[], Pairs], recipe: Recipe, seed: int) -> Run:
        """Train one head; its rows are the training curve."""

        def compute(directory: Path) -> Columns:
            drawn = pairs()
            self.progress.step(name.partition("/")[2])  # encoding the logs has announced itself in between
            head = fit(drawn, recipe, seed=seed, progress=self.progress)
            write_head(head, directory)
            curve = head.record["curve"]
            return {key: np.array([epoch[key] for epoch in curve]) for key in curve[0]}

        return self.run(name, config, compute)


def read_head(run: Run) -> LearnedHead:
    """The head of a run, after checking its files."""
    run.require_intact()
    return load_head(run.path)
