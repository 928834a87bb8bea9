"""The schedule: cells are computed once their needs are recorded, recorded by this process, and shown."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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


class Watch:
    """Counts cells and estimates the time left.

    Args:
        durations: Seconds of recorded runs.
        places: Number of cells that are computed at a time.
        say: Shows a message.
    """

    def __init__(
        self,
        durations: Durations | None = None,
        places: int = 1,
        say: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._durations, self.places, self.say = durations or Durations(()), places, say
        self.failures = self.done = 0
        self._expected: dict[Path, float | None] = {}
        self._took: dict[str, list[float]] = {}
        self._pace = 0.0, 0.0  # seconds of cells that are done, and their estimate
        self.running: dict[Path, tuple[Cell, float]] = {}
        self.ahead: dict[Path, Cell] = {}

    def counted(self, table: str, cells: Collection[Path], missing: Collection[Path]) -> None:
        """Show how many cells of a table are recorded and missing."""
        earlier = len({*cells} - {*missing} - {*self._expected})
        self.say(f"{table}: {f'{earlier} cells recorded earlier, ' if earlier else ''}{len(missing)} to compute")

    def planned(self, cells: Collection[Cell]) -> None:
        """Count cells that are to be computed."""
        self._expected |= {cell.path: self._durations.of(cell.name, cell.config) for cell in cells}
        self.ahead |= {cell.path: cell for cell in cells}  # last, as another thread may show what is ahead

    def began(self, cell: Cell) -> None:
        """Count a cell that is being computed."""
        self.running[cell.path] = cell, time.monotonic()

    def ended(self, cell: Cell, seconds: float) -> None:
        """Count a cell that is recorded."""
        self._forget(cell)
        self.done += 1
        self._took.setdefault(cell.spec.kind, []).append(seconds)
        if expected := self._expected[cell.path]:
            self._pace = self._pace[0] + seconds, self._pace[1] + expected

    def failed(self, cell: Cell, reason: str) -> None:
        """Count a cell that will not be recorded."""
        self._forget(cell)
        self.failures += 1
        self.say(f"failed: {cell.name}: {reason}")

    def waited(self) -> None:
        """Show the running cells, as none has ended for a while."""

    def close(self) -> None:
        """Stop showing."""

    def summary(self) -> str:
        """Return counts of cells, and the time left; "more than" if nothing is known of some cells."""
        ahead, failed = [*self.ahead.values()], f", {self.failures} failed" if self.failures else ""
        words = f"{self.done} of {self.done + self.failures + len(ahead)} cells done{failed}"
        known = [seconds for cell in ahead if (seconds := self._seconds(cell)) is not None]
        if not known:
            return words
        spent = sum(time.monotonic() - since for _, since in [*self.running.values()])
        about = "about" if len(known) == len(ahead) else "more than"
        return f"{words}, {about} {duration(max(0.0, sum(known) - spent) / self.places)} left"

    def _seconds(self, cell: Cell) -> float | None:
        """Estimate a cell from comparable runs and the pace so far, else from the cells of its kind that are done."""
        if (expected := self._expected[cell.path]) is not None:
            return expected * self._pace[0] / self._pace[1] if self._pace[1] else expected
        took = [*self._took.get(cell.spec.kind, ())]
        return sum(took) / len(took) if took else None

    def _forget(self, cell: Cell) -> None:
        self.ahead.pop(cell.path, None)
        self.running.pop(cell.path, None)


class Titles(Watch):
    """Shows counts in the titles of a progress, for cells that are computed in this process."""

    def __init__(self, progress: Progress, durations: Durations | None = None) -> None:
        super().__init__(durations, say=progress.say)
        self._step, self._shown = progress.step, time.monotonic()

    def began(self, cell: Cell) -> None:
        """Show the title of a cell."""
        super().began(cell)
        self._step(f"{self.done + self.failures + 1}/{self.done + self.failures + len(self.ahead)} {cell.path.name}")
        if time.monotonic() - self._shown > EVERY:
            self._shown = time.monotonic()
            self.say(self.summary())


class Lines(Watch):
    """Prints a line for every failed cell; below them a terminal shows all cells, and a file gets a line for each."""

    def __init__(self, console: Console, places: int, durations: Durations | None = None) -> None:
        options = {"markup": False, "highlight": False, "soft_wrap": True}
        super().__init__(durations, places, lambda text: console.print(text, **options))
        shown = {"get_renderable": lambda: Text(self._state("\n  ")), "refresh_per_second": 2, "transient": True}
        self.live = Live(console=console, **shown) if console.is_interactive else None

    def began(self, cell: Cell) -> None:
        """Show all cells from now on."""
        super().began(cell)
        if self.live and not self.live.is_started:
            self.live.start()

    def ended(self, cell: Cell, seconds: float) -> None:
        """Print the time of a cell."""
        super().ended(cell, seconds)
        if self.live is None:
            self.say(f"{cell.name} {seconds:.1f} s; {self.summary()}")

    def waited(self) -> None:
        """Print the running cells."""
        if self.live is None:
            self.say(self._state("; "))

    def close(self) -> None:
        """Clear the terminal."""
        if self.live:
            self.live.stop()

    def _state(self, between: str) -> str:
        running = [f"{cell.name} for {duration(time.monotonic() - since)}" for cell, since in [*self.running.values()]]
        return between.join([self.summary(), *running])


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
                watch.counted(request.table, cells, missing)
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
    """Cells that wait, are computed, or failed."""

    def __init__(self, executor: Executor, watch: Watch) -> None:
        self._executor, self._watch = executor, watch
        self._waiting: dict[Path, Cell] = {}
        self._running: dict[Future[Any], Cell] = {}
        self._deaths = Counter[Path]()
        self._models: dict[Path, str] = {}
        self.failed: dict[Path, tuple[Cell, str]] = {}

    @property
    def unsettled(self) -> set[Path]:
        """Cells that may still be recorded."""
        return {*self._waiting, *(cell.path for cell in self._running.values())}

    def add(self, cells: Iterable[Cell]) -> None:
        """Add cells, unless they are known already."""
        known = self.unsettled | {*self.failed}
        new = {cell.path: cell for cell in cells if cell.path not in known}
        self._waiting |= new
        for path, cell in new.items():
            config = cell.config
            self._models[path] = str(config.get("model") or config.get("world"))
        self._watch.planned(new.values())
        self._fail_dependents()

    def step(self) -> None:
        """Start as many cells as there are places, then wait until one is finished."""
        self._watch.places = self._executor.places
        while len(self._running) < self._watch.places and (cell := self._next()):
            self._watch.began(self._waiting.pop(cell.path))
            self._running[self._executor.submit(cell)] = cell
        finished = wait(self._running, EVERY, FIRST_COMPLETED).done
        for future in finished:
            self._settle(self._running.pop(future), future)
        if self._running and not finished:
            self._watch.waited()

    def _next(self) -> Cell | None:
        """Return a cell whose needs are recorded, preferably of a world model that no running cell uses.

        The first cell of a world model encodes its logs, and others would wait for it.
        """
        unsettled, busy = self.unsettled, Counter(self._models[cell.path] for cell in self._running.values())
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
