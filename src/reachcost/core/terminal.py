"""What a terminal shows: names and paths of others as they are, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Control characters, marks that turn or hide text, and halves of characters: what a reader must see, or cannot."""


def visible(text: object) -> str:
    r"""Text in which everything shows: control characters and marks of direction as their code points.

    >>> visible("a\x1b[1m\u202eb")
    'a⟨1B⟩[1m⟨202E⟩b'
    """
    return _UNSEEN.sub(lambda found: f"⟨{ord(found[0]):02X}⟩", str(text))


class PlainConsole(Console):
    """A terminal on which text is text: brackets are no styles, colons no pictures, and nothing moves the cursor.

    >>> PlainConsole(width=40).print("[red] [/nothing] :smile: \\x1b[2J")
    [red] [/nothing] :smile: ⟨1B⟩[2J
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """What is printed, piece by piece; what moves the cursor is only what progress asks for."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=visible(piece.text))

    def render_str(self, text: str, **options: Any) -> Text:
        """Text as it is shown: what is printed, and cells and titles of tables."""
        return super().render_str(visible(text), **options)
