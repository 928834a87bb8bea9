"""How far cells are: counts and time left, in titles of a progress, in lines, or on a board."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event, Thread

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reachcost.base.progress import Progress
from reachcost.studies.cells.cell import Cell

EVERY = 60.0
"""Seconds between two lines about all cells."""
Estimate = Callable[[Cell], float | None]
"""Seconds that a cell will take, if anything is known."""


class Watch:
    """Counts cells and estimates when they are done; shows nothing.

    Args:
        estimate: What cells will take.
        places: How many are computed at a time.
    """

    def __init__(self, estimate: Estimate = lambda cell: None, places: int = 1) -> None:
        self._estimate, self.places, self.failures = estimate, places, 0
        self._expected: dict[Path, float | None] = {}
        self._took: dict[str, list[float]] = {}
        self._done: dict[Path, float] = {}
        self._tables: set[str] = set()
        self.running: dict[Path, tuple[Cell, float]] = {}
        """Cells that are computed, and since when."""
        self.ahead: dict[Path, Cell] = {}
        """Cells that are not done, running ones among them."""

    def looked_up(self, table: str, cells: Collection[Path], missing: Collection[Path]) -> None:
        """The cells of a table, and those of them that are missing, are known."""
        if table not in self._tables:
            self._tables.add(table)
            earlier = len({*cells} - {*missing} - {*self._done})
            parts = [f"{earlier} cells recorded earlier"] if earlier else []
            self.say(f"{table}: {', '.join([*parts, f'{len(missing)} to compute'])}")

    def planned(self, cells: Collection[Cell]) -> None:
        """More cells are to be computed."""
        self._expected |= {cell.path: self._estimate(cell) for cell in cells}
        self.ahead |= {cell.path: cell for cell in cells}  # last, as another thread may show what is ahead

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        self.running[cell.path] = cell, time.monotonic()

    def ended(self, cell: Cell, seconds: float) -> None:
        """A cell is recorded."""
        self._forget(cell)
        self._done[cell.path] = seconds
        self._took.setdefault(cell.spec.kind, []).append(seconds)

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
        """Number of cells that were computed."""
        return len(self._done)

    @property
    def total(self) -> int:
        """Number of cells that were to be computed."""
        return self.done + self.failures + len(self.ahead)

    def summary(self) -> str:
        """How far all cells are."""
        failed = f"{self.failures} failed" if self.failures else ""
        return ", ".join(filter(None, [f"{self.done} of {self.total} cells done", failed, self.left()]))

    def left(self) -> str:
        """The time that is left; "more than" if nothing is known of some cells."""
        seconds = [self._seconds(cell) for cell in [*self.ahead.values()]]
        known = [one for one in seconds if one is not None]
        if not known:
            return ""
        spent = sum(time.monotonic() - since for _, since in [*self.running.values()])
        words = "about" if len(known) == len(seconds) else "more than"
        return f"{words} {duration(max(0.0, sum(known) - spent) / self.places)} left"

    def _seconds(self, cell: Cell) -> float | None:
        """The estimate for a cell, by the pace so far; else the mean of its kind here."""
        expected, took = self._expected[cell.path], self._took.get(cell.spec.kind)
        if expected is None:
            return sum([*took]) / len(took) if took else None
        known = [(took, on_record) for path, took in [*self._done.items()] if (on_record := self._expected[path])]
        pace = sum(took for took, _ in known) / sum(on_record for _, on_record in known) if known else 1.0
        return expected * pace

    def _forget(self, cell: Cell) -> None:
        self.ahead.pop(cell.path, None)
        self.running.pop(cell.path, None)


class Titles(Watch):
    """Counts cells in the titles of a progress, which shows how far each of them is in this process."""

    def __init__(self, progress: Progress, estimate: Estimate = lambda cell: None) -> None:
        super().__init__(estimate)
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


class Lines(Watch):
    """A line on a console for every cell that is done or failed, and one a minute where none is."""

    def __init__(self, console: Console, places: int, estimate: Estimate = lambda cell: None) -> None:
        super().__init__(estimate, places)
        self._console, self._closed, self._said = console, Event(), time.monotonic()
        self._teller = Thread(target=self._go_on_telling, daemon=True)

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        super().began(cell)
        if not self._teller.ident:
            self._teller.start()

    def ended(self, cell: Cell, seconds: float) -> None:
        """A cell is recorded."""
        super().ended(cell, seconds)
        self.say(f"{cell.name} {seconds:.1f} s; {self.summary()}")

    def say(self, text: str) -> None:
        """Show a line."""
        self._said = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Be quiet."""
        self._closed.set()

    def _go_on_telling(self) -> None:
        while not self._closed.wait(max(0.0, self._said + EVERY - time.monotonic())):
            if (now := time.monotonic()) - self._said >= EVERY:
                running = [f"{cell.name} for {duration(now - since)}" for cell, since in [*self.running.values()]]
                self.say("; ".join(filter(None, (self.summary(), ", ".join(running)))))


class Board(Watch):
    """A bar and the running cells at the bottom of a terminal, below lines that remain."""

    def __init__(self, console: Console, places: int, estimate: Estimate = lambda cell: None) -> None:
        super().__init__(estimate, places)
        self._live = Live(get_renderable=self._shown, console=console, refresh_per_second=2, transient=True)

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        super().began(cell)
        self._live.start()

    def say(self, text: str) -> None:
        """Show a line."""
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the board away."""
        self._live.stop()

    def _shown(self) -> RenderableType:
        head, running = Table.grid(padding=(0, 1)), Table.grid(padding=(0, 2))
        head.add_row(ProgressBar(self.total, self.done, 24), Text(self.summary()))
        for cell, since in [*self.running.values()]:
            running.add_row("", Text(cell.name), duration(time.monotonic() - since))
        return Group(head, running)


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
