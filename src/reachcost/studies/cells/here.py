"""Cells in this process, one after the other, with every thread there is."""

from __future__ import annotations

from pathlib import Path

from reachcost.results.records import Result, computed
from reachcost.studies.cells.executor import Failure, Job


class Here:
    """Computes cells in this process.

    Args:
        out: The output directory, which the cells know already.
        scratch: A directory for what they write meanwhile.
    """

    places, beside = 1, ""

    def __init__(self, out: Path, scratch: Path) -> None:
        self._scratch = scratch
        self._begun: list[Job] = []

    def begin(self, job: Job) -> None:
        """Take a cell; it is computed in `finish`."""
        self._begun.append(job)

    def finish(self) -> tuple[Job, Result | Failure]:
        """Compute it."""
        job = self._begun.pop()
        try:
            return job, computed(job.cell.compute, self._scratch)
        except Exception as error:  # the others go on
            return job, Failure.of(error)

    def close(self) -> None:
        """There is nothing to stop."""
