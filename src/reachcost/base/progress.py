"""Progress of long work: silent for library calls, bars (rich) for the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

Item = TypeVar("Item")


class Progress:
    """Shows nothing; what library functions use unless told otherwise."""

    def step(self, title: str) -> None:
        """Announce the next piece of work."""

    def reused(self, title: str) -> None:
        """Say that a piece of work was done before."""

    def track(self, items: Sequence[Item], unit: str) -> Iterator[Item]:
        """Iterate over the items of the current piece."""
        yield from items

    def note(self, text: str) -> None:
        """Say how the current piece is doing."""


class ConsoleProgress(Progress):
    """One line per piece of work on the terminal, with a bar while it runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title = ""
        self._bars: Bars | None = None

    def step(self, title: str) -> None:
        """Announce the next piece of work."""
        self._title = title

    def reused(self, title: str) -> None:
        """Say that a piece of work was done before."""
        self._console.print(f"{title:<22} recorded earlier", style="dim", highlight=False)

    def track(self, items: Sequence[Item], unit: str) -> Iterator[Item]:
        """Iterate over the items of the current piece, with a bar."""
        columns = (TextColumn("{task.description}"), BarColumn(12), MofNCompleteColumn(), TextColumn(unit))
        note = TextColumn("{task.fields[note]}")
        with Bars(*columns, TimeElapsedColumn(), note, console=self._console) as bars:
            task = bars.add_task(f"{self._title:<22}", total=len(items), note="")
            self._bars = bars
            for item in items:
                yield item
                bars.advance(task)
        self._bars = None

    def note(self, text: str) -> None:
        """Say how the current piece is doing, beside its bar."""
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], note=text)
