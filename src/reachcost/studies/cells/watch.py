"""What is known of cells while they are computed: done, running, failed, time left; shown or not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from reachcost.base.progress import Progress
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.estimate import Estimates
from reachcost.studies.cells.order import Order, Walk

EVERY = 60.0
"""Seconds between two lines about all of the work, where its pieces show themselves."""


class Watch:
    """Counts cells and foresees when they are done; shows nothing.

    Args:
        estimates: What cells will take.
        places: How many are computed at a time.
    """

    def __init__(self, estimates: Estimates | None = None, places: int = 1) -> None:
        self._estimates, self.places = estimates or Estimates([]), places
        self.beside: Callable[[], str] = str
        """Tells what is done for several cells together."""
        self._expected: dict[Path, float | None] = {}
        self._took: dict[str, list[float]] = {}
        self._done: dict[Path, float] = {}
        self._walked: set[Order] = set()
        self.running: dict[Path, tuple[Cell, float]] = {}
        """Cells that are computed, and since when."""
        self.ahead: dict[Path, Cell] = {}
        """Cells that are not done, those that are running among them."""
        self.failures = 0

    def walked(self, order: Order, walk: Walk) -> None:
        """A table was looked through: what of it is there, and what is not."""
        if order not in self._walked:
            self._walked.add(order)
            earlier = [run for run in walk.recording.recorder.used() if run.path not in self._done]
            told = [f"{len(earlier)} cells recorded earlier"] if earlier else []
            self.say(f"{order.table}: {', '.join([*told, f'{len(walk.missing)} to compute'])}")

    def planned(self, cells: Sequence[Cell]) -> None:
        """More cells are to be computed."""
        self._expected |= {cell.path: self._estimates.of(cell) for cell in cells}
        self.ahead |= {cell.path: cell for cell in cells}  # last, as another thread may show what is ahead

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        self.running[cell.path] = cell, time.monotonic()

    def ended(self, cell: Cell, seconds: float) -> None:
        """A cell is recorded."""
        self._forget(cell)
        self._done[cell.path] = seconds
        self._took.setdefault(cell.kind, []).append(seconds)

    def failed(self, cell: Cell, reason: str) -> None:
        """A cell will not be recorded."""
        self._forget(cell)
        self.failures += 1
        self.say(f"failed: {cell.name}: {reason}")

    def say(self, text: str) -> None:
        """Show a line."""

    def close(self) -> None:
        """There is nothing more to show."""

    @property
    def done(self) -> int:
        """Cells that were computed."""
        return len(self._done)

    @property
    def total(self) -> int:
        """Cells that were to be computed."""
        return self.done + self.failures + len(self.ahead)

    def summary(self) -> str:
        """How far everything is, in words."""
        parts = [f"{self.done} of {self.total} cells done"]
        parts += [f"{self.failures} failed"] if self.failures else []
        return ", ".join([*parts, *filter(None, [self.left(), self.beside()])])

    def left(self) -> str:
        """The time that is left, in words; cells that nothing is known of are told apart."""
        seconds = [self._seconds(cell) for cell in [*self.ahead.values()]]
        known = [one for one in seconds if one is not None]
        if not known:
            return ""
        spent = sum(time.monotonic() - since for _, since in [*self.running.values()])
        words = "about" if len(known) == len(seconds) else "more than"
        return f"{words} {duration(max(0.0, sum(known) - spent) / self.places)} left"

    def _seconds(self, cell: Cell) -> float | None:
        """What a cell will take here: as on record, by the pace so far, else as others of its kind did."""
        expected, took = self._expected[cell.path], self._took.get(cell.kind)
        if expected is not None:
            return expected * self._pace()
        return sum([*took]) / len(took) if took else None

    def _pace(self) -> float:
        """Seconds here for a second on record."""
        known = [(took, on_record) for path, took in [*self._done.items()] if (on_record := self._expected[path])]
        return sum(took for took, _ in known) / sum(on_record for _, on_record in known) if known else 1.0

    def _forget(self, cell: Cell) -> None:
        self.ahead.pop(cell.path, None)
        self.running.pop(cell.path, None)


class Titles(Watch):
    """Counts cells in the titles of a progress that shows what is done in each of them, in this process.

    Args:
        progress: That progress.
        outs: Output directories whose records tell what cells will take.
    """

    def __init__(self, progress: Progress, outs: Iterable[Path] = ()) -> None:
        super().__init__(Estimates(outs))
        self._progress, self._said = progress, time.monotonic()

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        super().began(cell)
        self._progress.step(f"{self.done + self.failures + 1}/{self.total} {cell.path.name}")

    def ended(self, cell: Cell, seconds: float) -> None:
        """A cell is recorded."""
        super().ended(cell, seconds)
        if self.ahead and time.monotonic() - self._said > EVERY:
            self._said = time.monotonic()
            self.say(self.summary())

    def say(self, text: str) -> None:
        """Show a line."""
        self._progress.say(text)


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(40), duration(100), duration(3700), duration(90_000)
    ('40 s', '2 min', '1 h 2 min', '25 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 600 else f"{round(minutes / 60)} h"
