"""What all panels share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from reachcost.report.html import Markup, tag

COLOURS = 6
"""Costs that have a colour of their own."""


def section(name: str, heading: str, *content: object, lead: object = None) -> Markup:
    """A part of the page, with its heading and a sentence about it."""
    said = None if lead is None else tag("p", lead, class_="soft lead")
    title = tag("h2", heading, id=f"{name}-heading")
    return tag("section", title, said, *content, class_="stack", id=name, aria_labelledby=f"{name}-heading")


def cannot(name: str, heading: str, why: str) -> Markup:
    """A part that cannot be drawn, and why."""
    return section(name, heading, tag("p", why, class_="cannot"))


def colour_of(name: str, names: Sequence[str]) -> str:
    """The class that gives a cost its colour; its name always stands beside it."""
    return f"series-{1 + list(names).index(name) % COLOURS}"


def number(value: float, digits: int = 3) -> str:
    """A number as people read it.

    >>> number(91.996), number(0.0001234), number(1234567.0), number(-2.0)
    ('92', '0.000123', '1,230,000', '−2')
    """
    if not isfinite(value):
        return "–"
    rounded = float(f"{value:.{digits}g}")
    text = (
        f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) or rounded == int(rounded) else f"{rounded:.{digits}g}"
    )
    return text.replace("-", "−")


def share(value: float) -> str:
    r"""A percentage, on one line: whole, unless it is close to none or all, or half of one.

    >>> share(92.0), share(99.44), share(0.4), share(12.5)
    ('92\xa0%', '99.4\xa0%', '0.4\xa0%', '12.5\xa0%')
    """
    exact = 0 < value < 1 or 99 < value < 100 or abs(value % 1 - 0.5) < 0.05
    return f"{value:.1f}\xa0%" if exact else f"{value:.0f}\xa0%"


def span(interval: Sequence[float] | None) -> str:
    """An interval, or nothing."""
    return "" if interval is None else f"{number(interval[0])} to {number(interval[1])}"


def shares(interval: Sequence[float] | None) -> str:
    """An interval of a percentage, or nothing.

    >>> shares((84.97, 97.0))
    '85–97 %'
    """
    return "" if interval is None else f"{interval[0]:.0f}–{interval[1]:.0f} %"


def valued(value: str, *below: str) -> Markup:
    """The cell of a value; below it, its interval or what else belongs to it."""
    said = ", ".join(filter(None, below))
    return tag("td", value, tag("span", said, class_="soft small block") if said else None, class_="number strong")


def prose(text: str) -> list[Markup]:
    """Paragraphs of a note; what stands between backticks is code."""
    return [
        tag(
            "p",
            *(tag("code", part) if at % 2 else part for at, part in enumerate(paragraph.split("`"))),
            class_="soft small",
        )
        for paragraph in text.split("\n\n")
        if paragraph
    ]


def facts(told: Mapping[str, object]) -> Markup:
    """Names and what they stand for; what is unknown is left out."""
    known = {name: value for name, value in told.items() if value not in (None, "")}
    pairs = [part for name, value in known.items() for part in (tag("dt", name), tag("dd", _text(value)))]
    return tag("dl", *pairs, class_="facts")


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def scrolled_table(label: str, headings: Iterable[tuple[str, str]], rows: Iterable[Markup], class_: str = "") -> Markup:
    """A table that scrolls by itself where it is too wide, also by keyboard.

    Args:
        label: What it is about.
        headings: Name and class of each column.
        rows: Its lines.
        class_: Its own class.
    """
    head = [tag("th", text, scope="col", class_=kind or None) for text, kind in headings]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows), class_=class_ or None)
    return tag("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)
