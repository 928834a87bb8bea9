"""The schedule: cells are computed once their needs are recorded, recorded by this process, and shown."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.text import Text

from reachcost.core.progress import Progress, duration
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Cell, StudyRef, missing_of
from reachcost.experiments.cells.executors import DIED, Executor, Recordings
from reachcost.experiments.experiment import Recording
from reachcost.results.durations import Durations
from reachcost.results.records import require_intact_runs

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
        """Return every cell that is known by now, needs first."""
        recording = recordings.of(self.study)
        if self.table not in recording.study.tables:
            known = ", ".join(recording.study.tables)
            raise ReachcostError(f"the study {recording.study.name} has no table {self.table!r}: it has {known}")
        recording.recorder.used.clear()
        return recording.study.tables[self.table].rows.cells(recording)


def completed(
    requests: Sequence[TableRequest], recordings: Recordings, executor: Executor, watch: Watch
) -> Iterator[tuple[TableRequest, Recording]]:
    """Compute and record what tables lack, and yield each table when all its runs are recorded.

    A cell that fails stops only what needs it. All failures are reported at the end, as one `ReachcostError`.
    """
    schedule, waiting = Schedule(executor, watch), {request: frozenset[Path]() for request in requests}
    counted = set[str]()
    while waiting:
        for request in [request for request, cells in waiting.items() if not cells & schedule.unsettled]:
            cells = request.cells(recordings)
            missing = missing_of(cells)
            if request.table not in counted:
                counted.add(request.table)
                earlier = len({*cells} - {*missing} - schedule.done)
                words = f"{earlier} cells recorded earlier, " if earlier else ""
                watch.say(f"{request.table}: {words}{len(missing)} to compute")
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
    """Cells that wait, are computed, are recorded, or failed.

    Args:
        executor: Computes cells.
        watch: Shows them, and knows what recorded runs took.
    """

    def __init__(self, executor: Executor, watch: Watch) -> None:
        self._executor, self._watch = executor, watch
        self._waiting: dict[Path, Cell] = {}
        self._running: dict[Future[Any], tuple[Cell, float]] = {}
        self._expected: dict[Path, float | None] = {}
        self._models: dict[Path, str] = {}
        self._deaths = Counter[Path]()
        self._took: dict[str, list[float]] = {}
        self._pace = 0.0, 0.0  # seconds of cells that are done, and their estimate
        self.done = set[Path]()
        """Cells that were recorded."""
        self.failed: dict[Path, tuple[Cell, str]] = {}
        """Cells that will not be recorded, and why."""

    @property
    def unsettled(self) -> set[Path]:
        """Cells that may still be recorded."""
        return {cell.path for cell in self._ahead()}

    @property
    def count(self) -> int:
        """Number of all cells."""
        return len(self.done) + len(self.failed) + len(self._ahead())

    def _ahead(self) -> list[Cell]:
        return [*self._waiting.values(), *(cell for cell, _ in [*self._running.values()])]

    def add(self, cells: Iterable[Cell]) -> None:
        """Add cells, unless they are known already."""
        known = {*self.unsettled, *self.failed}
        new = {cell.path: cell for cell in cells if cell.path not in known}
        for path, cell in new.items():
            config = cell.config
            self._models[path] = str(config.get("model") or config.get("world"))
            self._expected[path] = self._watch.durations.of(cell.name, config)
        self._waiting |= new  # last, as another thread may show what is ahead
        self._fail_dependents()

    def step(self) -> None:
        """Start as many cells as there are places, then wait until one is finished."""
        while len(self._running) < self._executor.places and (cell := self._next()):
            self._watch.began(self, cell)
            del self._waiting[cell.path]
            self._running[self._executor.submit(cell)] = cell, time.monotonic()
        finished = wait(self._running, EVERY, FIRST_COMPLETED).done
        for future in finished:
            self._settle(self._running.pop(future)[0], future)
        if self._running and not finished:
            self._watch.waited(self)

    def _next(self) -> Cell | None:
        """Return a cell whose needs are recorded, preferably of a world model that no running cell uses.

        The first cell of a world model encodes its logs, and others would wait for it.
        """
        unsettled, busy = self.unsettled, Counter(self._models[cell.path] for cell, _ in self._running.values())
        ready = [cell for cell in self._waiting.values() if not any(need.path in unsettled for need in cell.needs)]
        return min(ready, key=lambda cell: busy[self._models[cell.path]], default=None)

    def _settle(self, cell: Cell, future: Future[Any]) -> None:
        """Record the result of a cell; if its worker died, try again."""
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
            seconds = answer.outcome.seconds
            self.done.add(cell.path)
            self._took.setdefault(cell.spec.kind, []).append(seconds)
            if expected := self._expected[cell.path]:
                self._pace = self._pace[0] + seconds, self._pace[1] + expected
            self._watch.ended(self, cell, seconds)

    def _fail(self, cell: Cell, reason: str) -> None:
        self.failed[cell.path] = cell, reason
        self._watch.say(f"failed: {cell.name}: {reason}")
        self._fail_dependents()

    def _fail_dependents(self) -> None:
        """Fail what needs a failed cell; needs come first, so one pass finds all."""
        for path, cell in [*self._waiting.items()]:
            lost = next((need for need in cell.needs if need.path in self.failed), None)
            if lost is not None and self._waiting.pop(path, None):
                self._fail(cell, f"it needs {lost.name}")

    def require_success(self) -> None:
        """Raise one error that names the cells that failed by themselves, and counts those that need them."""
        if not self.failed:
            return
        own = [(cell, why) for cell, why in self.failed.values() if not any(n.path in self.failed for n in cell.needs)]
        named = "; ".join(f"{cell.name} failed ({why})" for cell, why in own)
        others = len(self.failed) - len(own)
        raise ReachcostError(
            f"{named}{f'; {others} more need that' if others else ''}: all else is recorded; fix it, and the same "
            "command goes on"
        )

    def summary(self) -> str:
        """Return counts of cells, and the time left; "more than" if nothing is known of some cells."""
        ahead, failed = self._ahead(), f", {len(self.failed)} failed" if self.failed else ""
        words = f"{len(self.done)} of {self.count} cells done{failed}"
        known = [seconds for cell in ahead if (seconds := self._seconds(cell)) is not None]
        if not known:
            return words
        spent = sum(time.monotonic() - since for _, since in [*self._running.values()])
        about = "about" if len(known) == len(ahead) else "more than"
        return f"{words}, {about} {duration(max(0.0, sum(known) - spent) / self._executor.places)} left"

    def _seconds(self, cell: Cell) -> float | None:
        """Estimate a cell from comparable runs and the pace so far, else from the cells of its kind that are done."""
        if (expected := self._expected[cell.path]) is not None:
            return expected * self._pace[0] / self._pace[1] if self._pace[1] else expected
        took = self._took.get(cell.spec.kind)
        return sum(took) / len(took) if took else None

    def state(self, between: str) -> str:
        """Return the summary and the running cells."""
        running = [f"{cell.name} for {duration(time.monotonic() - since)}" for cell, since in [*self._running.values()]]
        return between.join([self.summary(), *running])


class Watch:
    """Shows a schedule in the titles of a progress.

    Args:
        progress: Shows titles and messages; by default nothing.
        durations: Seconds of recorded runs, to estimate the time left.
    """

    def __init__(self, progress: Progress | None = None, durations: Durations | None = None) -> None:
        self._progress, self.durations = progress or Progress(), durations or Durations(())
        self._shown = time.monotonic()

    def say(self, text: str) -> None:
        """Show a message."""
        self._progress.say(text)

    def began(self, schedule: Schedule, cell: Cell) -> None:
        """Show that a cell begins, and a summary every `EVERY` seconds."""
        number = len(schedule.done) + len(schedule.failed) + 1
        self._progress.step(f"{number}/{schedule.count} {cell.path.name}")
        if time.monotonic() - self._shown > EVERY:
            self._shown = time.monotonic()
            self.say(schedule.summary())

    def ended(self, schedule: Schedule, cell: Cell, seconds: float) -> None:
        """Show that a cell is recorded."""

    def waited(self, schedule: Schedule) -> None:
        """Show what is running, as no cell has ended for a while."""

    def close(self) -> None:
        """Stop showing."""


class Lines(Watch):
    """Prints a line for each failed cell; a terminal shows all others below, a file gets a line for each of them."""

    def __init__(self, console: Console, durations: Durations | None = None) -> None:
        super().__init__(durations=durations)
        self._console = console
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def began(self, schedule: Schedule, cell: Cell) -> None:
        """Begin to show all cells on a terminal."""
        if self._console.is_interactive and self._live is None:
            shown = {"get_renderable": lambda: Text(schedule.state("\n  ")), "refresh_per_second": 2, "transient": True}
            self._live = Live(console=self._console, **shown)
            self._live.start()

    def ended(self, schedule: Schedule, cell: Cell, seconds: float) -> None:
        """Print the time of a cell."""
        if self._live is None:
            self.say(f"{cell.name} {seconds:.1f} s; {schedule.summary()}")

    def waited(self, schedule: Schedule) -> None:
        """Print what is running."""
        if self._live is None:
            self.say(schedule.state("; "))

    def close(self) -> None:
        """Clear the terminal."""
        if self._live:
            self._live.stop()


class Part(NamedTuple):
    """The cells of one kind in a table: how many are recorded, which are not, and how long these will take."""

    table: str
    kind: str
    done: int
    remaining: tuple[Cell, ...]
    seconds: float
    unknown: int
    """Number of cells without a comparable run on record."""


def plan_of(requests: Sequence[TableRequest], out: Path, elsewhere: Sequence[Path] = ()) -> Iterator[Part]:
    """Yield what of every table is recorded and what remains, by kind of cell; nothing is computed or written.

    Args:
        requests: The tables; cells that several of them share are counted in the first.
        out: Their output directory, which need not exist.
        elsewhere: Further output directories, whose records help to estimate times.
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
            known = [seconds for cell in remaining if (seconds := durations.of(cell.name, cell.config)) is not None]
            yield Part(request.table, kind, done[kind], remaining, sum(known), len(remaining) - len(known))
