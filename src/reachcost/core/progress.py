"""Consoles that show text as it is, and progress: silent by default, bars on a terminal, plain lines in a pipe."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.text import Text

from reachcost.errors import refuse

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Control characters, marks that turn or hide text, and surrogates."""


def escape_hidden(text: object) -> str:
    r"""Text with its control characters and marks of direction as code points.

    >>> escape_hidden("a\x1b[1m\u202eb")
    'a⟨1B⟩[1m⟨202E⟩b'
    """
    return _HIDDEN.sub(lambda found: f"⟨{ord(found[0]):02X}⟩", str(text))


class PlainConsole(Console):
    """A console that shows text as it is: no markup, no emoji, no control characters.

    >>> PlainConsole(width=40).print("[red] [/nothing] :smile: \\x1b[2J")
    [red] [/nothing] :smile: ⟨1B⟩[2J
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Escape all text; control segments, which progress bars use, stay."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=escape_hidden(piece.text))

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape strings, also those in cells and titles of tables."""
        return super().render_str(escape_hidden(text), **options)


Item = TypeVar("Item")
EVERY = 30.0
"""Seconds between two plain lines about one piece of work."""


class Progress:
    """Progress that shows nothing: the default of library functions."""

    def step(self, title: str) -> None:
        """Announce the next piece of work."""

    def reused(self, title: str) -> None:
        """Report that a piece of work was recorded earlier."""
        self.say(f"{title:<22} recorded earlier")

    def say(self, text: str) -> None:
        """Print a line between two pieces of work."""

    def track(self, items: Sequence[Item], unit: str) -> Iterator[Item]:
        """Iterate over the items of the current piece."""
        yield from items

    def note(self, text: str) -> None:
        """Show the state of the current piece."""


class ConsoleProgress(Progress):
    """One line per piece of work, with a bar while it runs; plain lines with the time if there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title = self._note = ""
        self._bars: Bars | None = None

    def step(self, title: str) -> None:
        """Announce the next piece of work."""
        self._title = title

    def say(self, text: str) -> None:
        """Print a line between two pieces of work."""
        self._console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)

    def track(self, items: Sequence[Item], unit: str) -> Iterator[Item]:
        """Iterate over the items of the current piece, and show how many are done."""
        self._note = ""
        if not self._console.is_interactive:
            yield from self._in_lines(items, unit)
            return
        title, note = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[note]}"))
        columns = (title, BarColumn(12), MofNCompleteColumn(), TextColumn(unit, markup=False))
        with Bars(*columns, TimeElapsedColumn(), note, console=self._console) as bars:
            task = bars.add_task(f"{self._title:<22}", total=len(items), note="")
            self._bars = bars
            for item in items:
                yield item
                bars.advance(task)
        self._bars = None

    def _in_lines(self, items: Sequence[Item], unit: str) -> Iterator[Item]:
        """Items, with plain lines while they are processed, and after the last one."""
        began = printed = time.monotonic()
        for done, item in enumerate(items, start=1):
            yield item
            now = time.monotonic()
            if done == len(items) or now - printed >= EVERY:
                printed = now
                words = (f"{self._title:<22}", f"{done}/{len(items)}", unit, f"{now - began:.1f} s", self._note)
                self._console.print(" ".join(filter(str.strip, words)), markup=False, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Show the state of the current piece next to its bar, or at the end of its next line."""
        self._note = text
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], note=text)


def as_progress(progress: Progress | bool | None) -> Progress:
    """The progress of an argument `progress=`: True shows it on standard error; None and False show nothing."""
    if isinstance(progress, Progress):
        return progress
    if progress is not None and not isinstance(progress, bool):
        refuse(progress, "progress", "give True to see it, or leave it out")
    return ConsoleProgress(PlainConsole(stderr=True)) if progress else Progress()


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(40), duration(100), duration(3700), duration(90_000)
    ('40 s', '2 min', '1 h 2 min', '25 h')
    """
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{seconds:.0f} s" if seconds < 60 else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 600 else f"{round(minutes / 60)} h"
