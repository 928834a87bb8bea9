"""The schedule: cells are computed once their needs are recorded, and recorded by this process."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.experiments.cells.cell import Cell, StudyRef, missing_of
from reachcost.experiments.cells.executors import DIED, Executor, Recordings
from reachcost.experiments.cells.progress import Watch
from reachcost.experiments.experiment import Recording
from reachcost.results.durations import Durations
from reachcost.results.records import require_intact_runs


class TableRequest(NamedTuple):
    """A table that is to be made."""

    table: str
    """Its name."""
    study: StudyRef
    """The study that has it."""
    command: str = ""
    """What makes this table from the command line, if anything does."""

    def cells(self, recordings: Recordings) -> dict[Path, Cell]:
        """Every cell that is known by now, needs first."""
        recording = recordings.of(self.study)
        if self.table not in recording.study.tables:
            known = ", ".join(recording.study.tables)
            raise ReachcostError(f"the study {recording.study.name} has no table {self.table!r}: it has {known}")
        recording.recorder.forget()
        return recording.study.tables[self.table].rows.cells(recording)


def completed(
    requests: Sequence[TableRequest], recordings: Recordings, executor: Executor, watch: Watch
) -> Iterator[tuple[TableRequest, Recording]]:
    """Compute and record what tables lack, and yield each table when all its runs are recorded.

    A cell that fails stops only what needs it. All failures are reported at the end, as one `ReachcostError`.
    """
    schedule, waiting = Schedule(executor, watch), {request: frozenset[Path]() for request in requests}
    while waiting:
        for request in [request for request, cells in waiting.items() if not cells & schedule.unsettled]:
            cells = request.cells(recordings)
            missing = missing_of(cells)
            watch.looked_up(request.table, cells, missing)
            if {*missing} - {*schedule.failed}:
                schedule.add(missing.values())
                waiting[request] = frozenset(missing)
                continue
            del waiting[request]
            if not missing:
                yield request, recordings.of(request.study)
        if waiting:
            schedule.step()
    schedule.require_success()


class Schedule:
    """Cells that wait, those that are computed, and those that failed."""

    def __init__(self, executor: Executor, watch: Watch) -> None:
        self._executor, self._watch = executor, watch
        self._waiting: dict[Path, Cell] = {}
        self._running: dict[Future[Any], Cell] = {}
        self._deaths = Counter[Path]()
        self._subjects: dict[Path, str] = {}
        self.failed: dict[Path, tuple[Cell, str]] = {}

    @property
    def unsettled(self) -> set[Path]:
        """Cells that may still be recorded."""
        return {*self._waiting, *(cell.path for cell in self._running.values())}

    def add(self, cells: Iterable[Cell]) -> None:
        """Compute these too, unless they are known already."""
        known = self.unsettled | {*self.failed}
        new = [cell for cell in cells if cell.path not in known]
        self._waiting |= {cell.path: cell for cell in new}
        for cell in new:
            config = cell.config
            self._subjects[cell.path] = str(config.get("model") or config.get("world"))
        self._watch.planned(new)
        self._fail_dependents()

    def step(self) -> None:
        """Start as many cells as there are places, then wait until one is finished."""
        self._watch.places = self._executor.places
        while len(self._running) < self._watch.places and (cell := self._next()):
            self._watch.began(self._waiting.pop(cell.path))
            self._running[self._executor.submit(cell)] = cell
        for future in wait(self._running, return_when=FIRST_COMPLETED).done:
            self._settle(self._running.pop(future), future)

    def _next(self) -> Cell | None:
        """A cell whose needs are recorded, preferably of a world model that no running cell uses.

        The first cell of a world model encodes its logs, and others would wait for it.
        """
        unsettled, busy = self.unsettled, Counter(self._subjects[cell.path] for cell in self._running.values())
        ready = [cell for cell in self._waiting.values() if not any(need.path in unsettled for need in cell.needs)]
        return min(ready, key=lambda cell: busy[self._subjects[cell.path]], default=None)

    def _settle(self, cell: Cell, future: Future[Any]) -> None:
        """Record what a cell came to; if its worker died, try again."""
        answer = self._executor.answer(future)
        if answer is None:
            self._deaths[cell.path] += 1
            if self._deaths[cell.path] < self._executor.tries:
                self._waiting = {cell.path: cell, **self._waiting}
            else:
                self._fail(cell, DIED.format(self._executor.tries))
            return
        for text, category in answer.warned:
            warnings.warn(text, category, stacklevel=2)
        if isinstance(answer.outcome, str):
            self._fail(cell, answer.outcome)
            return
        try:
            cell.record(answer.outcome)
        except ReachcostError as error:
            self._fail(cell, str(error))
        else:
            self._watch.ended(cell, answer.outcome.seconds)

    def _fail(self, cell: Cell, reason: str) -> None:
        self.failed[cell.path] = cell, reason
        self._watch.failed(cell, reason)
        self._fail_dependents()

    def _fail_dependents(self) -> None:
        """Fail what needs a failed cell; needs come first, so one pass finds all."""
        for path, cell in [*self._waiting.items()]:
            lost = next((need for need in cell.needs if need.path in self.failed), None)
            if lost is not None and self._waiting.pop(path, None):
                self._fail(cell, f"it needs {lost.name}")

    def require_success(self) -> None:
        """Name the cells that failed by themselves, and count those that need them."""
        if not self.failed:
            return
        own = [(cell, why) for cell, why in self.failed.values() if not any(n.path in self.failed for n in cell.needs)]
        told = "; ".join(f"{cell.name} failed ({why})" for cell, why in own)
        others = len(self.failed) - len(own)
        raise ReachcostError(
            f"{told}{f'; {others} more need that' if others else ''}: all else is recorded; fix it, and the same "
            "command goes on"
        )


class Part(NamedTuple):
    """The cells of one kind in a table: how many are recorded, which are not, and how long these will take."""

    table: str
    kind: str
    done: int
    remaining: tuple[Cell, ...]
    seconds: float
    unknown: int
    """Number of cells to which nothing comparable is on record."""


def plan_of(requests: Sequence[TableRequest], out: Path, elsewhere: Sequence[Path] = ()) -> Iterator[Part]:
    """What of every table is done and what remains, by kind of cell; nothing is computed or written.

    Args:
        requests: The tables; what several of them share remains in the first alone.
        out: Their output directory, which need not exist.
        elsewhere: Further output directories whose records tell what cells take.
    """
    require_intact_runs(out)
    recordings, durations, counted = Recordings(out, Progress()), Durations([out, *elsewhere]), set[Path]()
    for request in requests:
        cells = request.cells(recordings)
        missing = missing_of(cells)
        done = Counter(cell.spec.kind for path, cell in cells.items() if path not in missing)
        new = [cell for path, cell in missing.items() if path not in counted]
        counted |= {*missing}
        for kind in dict.fromkeys([*done, *(cell.spec.kind for cell in new)]):
            remaining = tuple(cell for cell in new if cell.spec.kind == kind)
            known = [seconds for cell in remaining if (seconds := cell.seconds(durations)) is not None]
            yield Part(request.table, kind, done[kind], remaining, sum(known), len(remaining) - len(known))
