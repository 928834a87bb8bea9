"""Cells are computed, whoever needs others after these, and recorded by this one process, until tables are complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reachcost.errors import ReachcostError
from reachcost.results.records import Result
from reachcost.studies.cells.executor import Executor, Failure, Job
from reachcost.studies.cells.order import Desk, Order, Walk
from reachcost.studies.cells.watch import Watch


def carry_out(orders: Sequence[Order], desk: Desk, executor: Executor, watch: Watch) -> Iterator[tuple[Order, Walk]]:
    """Compute and record what tables lack; each comes out, with the walk that found its rows, when it is complete.

    A cell that fails stops nothing but what needs it. All that failed is told at the end, as one `ReachcostError`.
    """
    work, waiting = _Work(executor, watch), {order: frozenset[Path]() for order in orders}
    while waiting:
        for order in [order for order, cells in waiting.items() if not cells & work.unsettled]:
            walk = desk.walk(order)
            watch.walked(order, walk)
            if {*walk.missing} - {*work.failed}:
                work.add([Job(order, cell, walk.asked) for cell in walk.missing.values()])
                waiting[order] = frozenset(walk.missing)
                continue
            del waiting[order]
            if walk.rows is not None:
                yield order, walk
        if waiting:
            work.step()
    work.require_success()


class _Work:
    """Cells that wait, those that are computed, and those that failed."""

    def __init__(self, executor: Executor, watch: Watch) -> None:
        self._executor, self._watch = executor, watch
        watch.beside = lambda: executor.beside
        self._waiting: dict[Path, Job] = {}
        self._running: dict[Path, Job] = {}
        self.failed: dict[Path, tuple[Job, Failure]] = {}

    @property
    def unsettled(self) -> set[Path]:
        """Cells that may still come out."""
        return {*self._waiting, *self._running}

    def add(self, jobs: Sequence[Job]) -> None:
        """More to do; what is known already is left out."""
        known = self.unsettled | {*self.failed}
        new = [job for job in jobs if job.cell.path not in known]
        self._waiting |= {job.cell.path: job for job in new}
        self._watch.planned([job.cell for job in new])
        for job in new:
            if job.cell.path in self._waiting:
                self._fail_with_needs(job)

    def step(self) -> None:
        """Begin as many cells as there are places for, then wait until one is done."""
        self._watch.places = self._executor.places
        while len(self._running) < self._watch.places and (job := self._next()):
            self._running[job.cell.path] = self._waiting.pop(job.cell.path)
            self._watch.began(job.cell)
            self._executor.begin(job)
        job, outcome = self._executor.finish()
        del self._running[job.cell.path]
        if isinstance(outcome, Result):
            outcome = self._record(job, outcome)
        if isinstance(outcome, Failure):
            self._fail(job, outcome)

    def _next(self) -> Job | None:
        """A cell that can be computed now: rather of a world model that no other one is computed of.

        Those who come first to a world model encode its logs, and others would wait for that.
        """
        unsettled = self.unsettled
        ready = [job for job in self._waiting.values() if not job.cell.needs & unsettled]
        busy = [job.cell.subject for job in self._running.values()]
        return min(ready, key=lambda job: busy.count(job.cell.subject), default=None)

    def _record(self, job: Job, result: Result) -> Failure | None:
        try:
            job.cell.record(result)
        except ReachcostError as error:
            return Failure.of(error)
        self._watch.ended(job.cell, result.seconds)
        return None

    def _fail(self, job: Job, failure: Failure) -> None:
        """Note a failure, and that of those who need this cell."""
        self.failed[job.cell.path] = job, failure
        self._watch.failed(job.cell, failure.reason)
        for other in [*self._waiting.values()]:
            self._fail_with_needs(other)

    def _fail_with_needs(self, job: Job) -> None:
        lost = next((self.failed[path] for path in job.cell.needs if path in self.failed), None)
        if lost is not None and self._waiting.pop(job.cell.path, None):
            self._fail(job, Failure(f"it needs {lost[0].cell.name}"))

    def require_success(self) -> None:
        """Name what failed by itself, and count what failed with it."""
        if not self.failed:
            return
        own = {job.cell.name: failure for job, failure in self.failed.values() if not job.cell.needs & {*self.failed}}
        told = "; ".join(f"{name} failed ({failure.reason})" for name, failure in own.items())
        others = len(self.failed) - len(own)
        raise ReachcostError(
            f"{told}{f'; {others} more need that' if others else ''}: all else is recorded; mend it, and the same "
            "command goes on"
        ) from next(failure.error for failure in own.values())
