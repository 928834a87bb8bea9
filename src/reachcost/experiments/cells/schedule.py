"""The schedule: cells are computed once their needs are recorded, recorded by this process, and shown."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.text import Text

from reachcost.core.progress import Progress, duration
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Cell, Recording, StudyRef, missing_of
from reachcost.experiments.cells.executors import Executor, Recordings
from reachcost.results.durations import Durations

EVERY = 60.0
"""Seconds between two messages about all cells."""


class TableRequest(NamedTuple):
    """A table to make."""

    table: str
    """Its name."""
    study: StudyRef
    """The study that has it."""
    command: str = ""
    """The command that makes this table, if there is one."""

    def cells(self, recordings: Recordings) -> dict[Path, Cell]:
        """Return every cell that can be declared so far, needs first."""
        recording = recordings.of(self.study)
        if self.table not in recording.study.tables:
            known = ", ".join(recording.study.tables)
            raise ReachcostError(f"the study {recording.study.name} has no table {self.table!r}: it has {known}")
        recording.runs.clear()
        return recording.study.tables[self.table].rows.cells(recording)


class Schedule:
    """Lets an executor compute cells, records their results, and shows how far it is.

    A cell that fails stops only the cells that need it. `durations` estimate the time left. `console` shows cells that
    are computed in other processes.
    """

    def __init__(
        self, executor: Executor, progress: Progress, durations: Durations, console: Console | None = None
    ) -> None:
        self._executor, self._progress, self._durations, self._console = executor, progress, durations, console
        self._waiting: dict[Path, Cell] = {}  # needs first
        self._open = set[Path]()  # cells that wait or run, and may still be recorded
        self._running: dict[Future[Any], tuple[Cell, float]] = {}
        self._done, self._failed = set[Path](), set[Path]()
        self._reasons: list[str] = []
        self._expected: dict[Path, float | None] = {}
        self._took: dict[str, list[float]] = {}
        self._pace = 0.0, 0.0  # seconds of cells that are done, and their estimate
        self._shown = time.monotonic()

    def tables(
        self, requests: Sequence[TableRequest], recordings: Recordings
    ) -> Iterator[tuple[TableRequest, Recording]]:
        """Compute the missing runs of the tables, and yield each table when all its runs are recorded.

        All failures are reported at the end, as one `ReachcostError`.
        """
        waiting: dict[TableRequest, set[Path] | None] = dict.fromkeys(requests)
        while waiting:
            for request in [request for request, cells in waiting.items() if not cells or cells.isdisjoint(self._open)]:
                cells = request.cells(recordings)
                missing = missing_of(cells)
                if waiting[request] is None:
                    earlier = len({*cells} - {*missing} - self._done)
                    words = f"{earlier} cells recorded earlier, " if earlier else ""
                    self._progress.say(f"{request.table}: {words}{len(missing)} to compute")
                waiting[request] = {*missing} - self._failed
                self._add(missing.values())
                if not waiting[request]:
                    del waiting[request]
                    if not missing:
                        yield request, recordings.of(request.study)
            if waiting:
                self._step()
        if self._failed:
            others = len(self._failed) - len(self._reasons)
            raise ReachcostError(
                f"{'; '.join(self._reasons)}{f'; {others} more need that' if others else ''}: fix that, and repeat the "
                "command, as all other cells are recorded"
            )

    @property
    def _count(self) -> int:
        return len(self._done) + len(self._failed) + len(self._open)

    def _add(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            if cell.path not in self._open and cell.path not in self._failed:
                self._expected[cell.path] = self._durations.of(cell.name, cell.config)
                self._waiting[cell.path] = cell
                self._open.add(cell.path)
        self._fail_dependents()

    def _step(self) -> None:
        """Start as many cells as there are places, then wait until one is finished."""
        while len(self._running) < self._executor.places and (cell := self._next()):
            self._progress.step(f"{len(self._done) + len(self._failed) + 1}/{self._count} {cell.path.name}")
            del self._waiting[cell.path]
            self._running[self._executor.submit(cell)] = cell, time.monotonic()
        with self._live():
            finished = wait(self._running, EVERY, FIRST_COMPLETED).done
        for future in finished:
            cell, _ = self._running.pop(future)
            self._open.remove(cell.path)
            self._finish(cell, future)
        if self._running and not finished:
            self._progress.say(self.state("; "))

    def _next(self) -> Cell | None:
        """Return a cell whose needs are recorded."""
        ready = (cell for cell in self._waiting.values() if not any(need.path in self._open for need in cell.needs))
        return next(ready, None)

    def _finish(self, cell: Cell, future: Future[Any]) -> None:
        result, warned = self._executor.outcome(future)
        for text, category in warned:
            warnings.warn(text, category, stacklevel=2)
        try:
            if isinstance(result, str):
                raise ReachcostError(result)
            cell.record(result)
        except ReachcostError as error:
            self._reasons.append(f"{cell.name} failed ({error})")
            self._fail(cell, str(error))
            self._fail_dependents()
            return
        seconds = result.seconds
        self._done.add(cell.path)
        self._took.setdefault(cell.spec.kind, []).append(seconds)
        if expected := self._expected[cell.path]:
            self._pace = self._pace[0] + seconds, self._pace[1] + expected
        if self._console or time.monotonic() - self._shown > EVERY:  # in this process, cells have bars
            self._shown = time.monotonic()
            self._progress.say(f"{cell.name} {seconds:.1f} s; {self.summary()}")

    def _fail(self, cell: Cell, reason: str) -> None:
        self._failed.add(cell.path)
        self._progress.say(f"failed: {cell.name}: {reason}")

    def _fail_dependents(self) -> None:
        for path, cell in [*self._waiting.items()]:
            if lost := next((need for need in cell.needs if need.path in self._failed), None):
                del self._waiting[path]
                self._open.remove(path)
                self._fail(cell, f"it needs {lost.name}")

    def summary(self) -> str:
        """Return counts of cells, and the time left; "more than" if nothing is known of some cells."""
        ahead = [*self._waiting.values(), *(cell for cell, _ in self._running.values())]
        words = f"{len(self._done)} of {self._count} cells done"
        words += f", {len(self._failed)} failed" if self._failed else ""
        known = [seconds for cell in ahead if (seconds := self._seconds(cell)) is not None]
        if not known:
            return words
        left = sum(known) - sum(time.monotonic() - since for _, since in self._running.values())
        about = "about" if len(known) == len(ahead) else "more than"
        return f"{words}, {about} {duration(max(0.0, left) / self._executor.places)} left"

    def _seconds(self, cell: Cell) -> float | None:
        """Estimate a cell from comparable runs and the pace so far, else from the cells of its kind that are done."""
        if (expected := self._expected[cell.path]) is not None:
            return expected * self._pace[0] / self._pace[1] if self._pace[1] else expected
        took = self._took.get(cell.spec.kind)
        return sum(took) / len(took) if took else None

    def state(self, between: str) -> str:
        """Return the summary and the running cells."""
        running = [f"{cell.name} for {duration(time.monotonic() - since)}" for cell, since in self._running.values()]
        return between.join([self.summary(), *running])

    def _live(self) -> AbstractContextManager[object]:
        """Show what is running while this process waits, if there is a terminal."""
        if self._console is None or not self._console.is_interactive:
            return nullcontext()
        shown = {"get_renderable": lambda: Text(self.state("\n  ")), "refresh_per_second": 2, "transient": True}
        return Live(console=self._console, **shown)
