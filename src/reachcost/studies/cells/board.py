"""Cells that are computed elsewhere, shown: a board on a terminal, and where there is none, plain lines."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Thread

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.estimate import Estimates
from reachcost.studies.cells.watch import EVERY, Watch, duration

BAR = 24
"""Columns of the bar."""


class OnConsole(Watch):
    """What is said goes to a console.

    Args:
        console: Where to.
        places: How many cells are computed at a time.
        outs: Output directories whose records tell what cells will take.
    """

    def __init__(self, console: Console, places: int, outs: Iterable[Path] = ()) -> None:
        super().__init__(Estimates(outs), places)
        self._console = console

    def say(self, text: str) -> None:
        """Show a line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Lines(OnConsole):
    """A line for every cell that is done or failed, and one a minute where none is; arguments as of `OnConsole`."""

    def __init__(self, console: Console, places: int, outs: Iterable[Path] = ()) -> None:
        super().__init__(console, places, outs)
        self._closed, self._said = Event(), time.monotonic()
        self._teller = Thread(target=self._go_on_telling, daemon=True)

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        super().began(cell)
        if not self._teller.ident:
            self._teller.start()

    def close(self) -> None:
        """Be quiet."""
        self._closed.set()

    def say(self, text: str) -> None:
        """Show a line."""
        self._said = time.monotonic()
        super().say(text)

    def _go_on_telling(self) -> None:
        while not self._closed.wait(max(0.0, self._said + EVERY - time.monotonic())):
            if time.monotonic() - self._said >= EVERY:
                now = time.monotonic()
                running = [f"{cell.name} for {duration(now - since)}" for cell, since in [*self.running.values()]]
                self.say("; ".join(filter(None, (self.summary(), ", ".join(running)))))

    def ended(self, cell: Cell, seconds: float) -> None:
        """A cell is recorded."""
        super().ended(cell, seconds)
        self.say(f"{cell.name} {seconds:.1f} s; {self.summary()}")


class Board(OnConsole):
    """How far everything is, and what is running, below the lines that remain; arguments are those of `OnConsole`."""

    def __init__(self, console: Console, places: int, outs: Iterable[Path] = ()) -> None:
        super().__init__(console, places, outs)
        self._live = Live(get_renderable=self._shown, console=console, refresh_per_second=2, transient=True)

    def began(self, cell: Cell) -> None:
        """A cell is being computed."""
        super().began(cell)
        self._live.start()

    def close(self) -> None:
        """Take the board away."""
        self._live.stop()

    def _shown(self) -> RenderableType:
        head = Table.grid(padding=(0, 1))
        head.add_row(ProgressBar(self.total, self.done, BAR), Text(self.summary()))
        now, running = time.monotonic(), Table.grid(padding=(0, 2))
        for cell, since in [*self.running.values()]:
            running.add_row("", Text(cell.name), duration(now - since))
        return Group(head, running)


def watch_on(console: Console, places: int, outs: Iterable[Path] = ()) -> OnConsole:
    """A board where there is a terminal, else lines."""
    return (Board if console.is_interactive else Lines)(console, places, outs)
