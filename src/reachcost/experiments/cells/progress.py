"""How far cells are: counts and time left, in titles of a progress, in lines, or at the bottom of a terminal."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from threading import Event, Thread

from rich.console import Console
from rich.live import Live
from rich.text import Text

from reachcost.core.progress import Progress, duration
from reachcost.experiments.cells.cell import Cell
from reachcost.results.durations import Durations

EVERY = 60.0
"""Seconds between two lines about all cells."""
NOTHING = Durations(())
"""Where nothing is on record."""


class Watch:
    """Counts cells and estimates when they are done; shows nothing.

    Args:
        durations: What recorded runs took.
        places: How many are computed at a time.
    """

    def __init__(self, durations: Durations = NOTHING, places: int = 1) -> None:
        self._durations, self.places, self.failures, self.done = durations, places, 0, 0
        self._tables: set[str] = set()
        self._expected: dict[Path, float | None] = {}
        self._took: dict[str, list[float]] = {}
        self._pace = 0.0, 0.0  # seconds of cells that are done, and what was expected of them
        self.running: dict[Path, tuple[Cell, float]] = {}
        self.ahead: dict[Path, Cell] = {}

    def looked_up(self, table: str, cells: Collection[Path], missing: Collection[Path]) -> None:
        """The cells of a table, and those of them that are missing, are known."""
        if table not in self._tables:
            self._tables.add(table)
            earlier = len({*cells} - {*missing} - {*self._expected})
            self.say(f"{table}: {f'{earlier} cells recorded earlier, ' if earlier else ''}{len(missing)} to compute")

    def planned(self, cells: Collection[Cell]) -> None:
        """More cells are to be computed."""
        self._expected |= {cell.path: cell.seconds(self._durations) for cell in cells}
        self.ahead |= {cell.path: cell for cell in cells}  # last, as another thread may show what is ahead

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        self.running[cell.path] = cell, time.monotonic()

    def ended(self, cell: Cell, seconds: float) -> None:
        """A cell is recorded."""
        self._forget(cell)
        self.done += 1
        self._took.setdefault(cell.spec.kind, []).append(seconds)
        if expected := self._expected[cell.path]:
            self._pace = self._pace[0] + seconds, self._pace[1] + expected

    def failed(self, cell: Cell, reason: str) -> None:
        """A cell will not be recorded."""
        self._forget(cell)
        self.failures += 1
        self.say(f"failed: {cell.name}: {reason}")

    def say(self, text: str) -> None:
        """Show a line."""

    def close(self) -> None:
        """There is nothing more to show."""

    def summary(self) -> str:
        """How far all cells are, and the time that is left; "more than" if nothing is known of some cells."""
        ahead, failed = [*self.ahead.values()], f", {self.failures} failed" if self.failures else ""
        words = f"{self.done} of {self.done + self.failures + len(ahead)} cells done{failed}"
        known = [seconds for cell in ahead if (seconds := self._seconds(cell)) is not None]
        if not known:
            return words
        spent = sum(time.monotonic() - since for _, since in [*self.running.values()])
        about = "about" if len(known) == len(ahead) else "more than"
        return f"{words}, {about} {duration(max(0.0, sum(known) - spent) / self.places)} left"

    def _seconds(self, cell: Cell) -> float | None:
        """The estimate for a cell, by the pace so far; else the mean of its kind here."""
        if (expected := self._expected[cell.path]) is not None:
            return expected * self._pace[0] / self._pace[1] if self._pace[1] else expected
        took = [*self._took.get(cell.spec.kind, ())]
        return sum(took) / len(took) if took else None

    def _forget(self, cell: Cell) -> None:
        self.ahead.pop(cell.path, None)
        self.running.pop(cell.path, None)


class Titles(Watch):
    """Counts cells in the titles of a progress, which shows how far each of them is in this process."""

    def __init__(self, progress: Progress, durations: Durations = NOTHING) -> None:
        super().__init__(durations)
        self.say, self._step, self._said = progress.say, progress.step, time.monotonic()

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        super().began(cell)
        self._step(f"{self.done + self.failures + 1}/{self.done + self.failures + len(self.ahead)} {cell.path.name}")
        if time.monotonic() - self._said > EVERY:
            self._said = time.monotonic()
            self.say(self.summary())


class Lines(Watch):
    """A line on a console for every cell that failed, and on no terminal for every cell and every minute.

    A terminal shows below the lines how far all cells are, and which are running.
    """

    def __init__(self, console: Console, places: int, durations: Durations = NOTHING) -> None:
        super().__init__(durations, places)
        self._console, self._closed, self._said = console, Event(), time.monotonic()
        shown = {"get_renderable": lambda: Text(self.state("\n  ")), "refresh_per_second": 2, "transient": True}
        self.live = Live(console=console, **shown) if console.is_interactive else None
        self._begun = False

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        super().began(cell)
        if not self._begun:
            self._begun = True
            (self.live or Thread(target=self._tell, daemon=True)).start()

    def ended(self, cell: Cell, seconds: float) -> None:
        """A cell is recorded."""
        super().ended(cell, seconds)
        if self.live is None:
            self.say(f"{cell.name} {seconds:.1f} s; {self.summary()}")

    def say(self, text: str) -> None:
        """Show a line."""
        self._said = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Be quiet."""
        self._closed.set()
        if self.live:
            self.live.stop()

    def state(self, between: str = "; ") -> str:
        """How far all cells are, and what is running."""
        running = [f"{cell.name} for {duration(time.monotonic() - since)}" for cell, since in [*self.running.values()]]
        return between.join([self.summary(), *running])

    def _tell(self) -> None:
        while not self._closed.wait(max(0.0, self._said + EVERY - time.monotonic())):
            if time.monotonic() - self._said >= EVERY:
                self.say(self.state())
