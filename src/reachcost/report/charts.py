"""Small drawings that grow with the page: positions in percent, no words inside; the words stand beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from reachcost.report.html import Markup, joined, tag

Scale = Callable[[float], float]
"""From a value to percent of the width."""


def linear(low: float, high: float) -> Scale:
    """A straight scale; what lies outside is drawn at its edge.

    >>> linear(0, 50)(20), linear(0, 50)(70)
    (40.0, 100.0)
    """
    return lambda value: float(np.clip(100 * (value - low) / ((high - low) or 1), 0, 100))


def towards_zero(high: float) -> Scale:
    """A scale from 0 on that shows small values best.

    >>> [round(towards_zero(100)(value)) for value in (0, 1, 10, 100)]
    [0, 15, 52, 100]
    """
    return lambda value: 100 * float(np.log1p(np.clip(value, 0, high)) / np.log1p(high))


def inset(scale: Scale) -> Scale:
    """A scale that leaves room for dots at both ends.

    >>> inset(linear(0, 10))(0), inset(linear(0, 10))(10)
    (1.0, 99.0)
    """
    return lambda value: 1 + 0.98 * scale(value)


def bullet(
    scale: Scale, value: float, interval: Sequence[float] | None, kind: str, mark: float | None = None
) -> Markup:
    """A bar up to a value, its interval, and the mark it is compared with."""
    reach = scale(value)
    parts = [_box("track", 0, 100, 7, 8), _box(f"fill {kind}", 0, max(reach, 0.4), 7, 8)]
    if interval is not None:
        low, high = map(scale, interval)
        parts += [_line("span", low, high, 11), *(_line("span", end, end, 7, 15) for end in (low, high))]
    if mark is not None:
        parts.append(_line("mark", scale(mark), scale(mark), 1, 21))
    return _drawing(22, *parts)


def beeswarm(scale: Scale, values: np.ndarray, kind: str) -> Markup:
    """Every value as a dot, half of them within the box, and the median."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    # Rows of dots in turn, from small to large, so that equal values lie beside each other.
    heights = 6 + 5 * (np.arange(len(values)) % 5)
    dots = [
        tag("circle", cx=f"{scale(value):.2f}%", cy=int(y), r=2.2, class_=f"dot {kind}")
        for value, y in zip(np.sort(values), heights, strict=True)
    ]
    box = _box("half", scale(low), max(scale(high), scale(low) + 0.4), 3, 26)
    return _drawing(32, _box("track", 0, 100, 15, 2), box, *dots, _line("mark", scale(middle), scale(middle), 0, 32))


def curve(lines: Sequence[tuple[str, Sequence[float]]], references: Sequence[float] = ()) -> Markup:
    """Lines of values, all on one scale from 0 to the largest of them."""
    every = np.concatenate([*(np.asarray(values, float) for _, values in lines), np.asarray(references, float)])
    height = linear(float(every.max()), min(0.0, float(every.min())))  # y grows downwards
    drawn = [
        tag("polyline", class_=f"curve {kind}", points=" ".join(_points(values, height))) for kind, values in lines
    ]
    across = [tag("line", class_="mark", x1=0, x2=100, y1=height(one), y2=height(one)) for one in references]
    return tag(
        *("svg", joined(*across, *drawn)),
        class_="chart curves",
        viewBox="0 0 100 100",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def axis(scale: Scale, ticks: Sequence[float], unit: str) -> Markup:
    """Numbers below a drawing."""
    places = [
        tag("text", f"{tick:g}", x=f"{scale(tick):.2f}%", y=12, text_anchor=_anchor(scale(tick))) for tick in ticks
    ]
    return joined(_drawing(16, *places, class_="chart axis"), tag("p", unit, class_="soft small axis-unit"))


def _anchor(percent: float) -> str:
    return "start" if percent < 2 else "end" if percent > 98 else "middle"


def _points(values: Sequence[float], height: Scale) -> list[str]:
    return [f"{100 * at / max(1, len(values) - 1):.2f},{height(value):.2f}" for at, value in enumerate(values)]


def _drawing(height: int, *parts: Markup, class_: str = "chart") -> Markup:
    return tag("svg", *parts, class_=class_, width="100%", height=height, aria_hidden="true")


def _box(kind: str, low: float, high: float, y: float, height: float) -> Markup:
    return tag("rect", class_=kind, x=f"{low:.2f}%", width=f"{high - low:.2f}%", y=y, height=height, rx=2)


def _line(kind: str, x1: float, x2: float, y1: float, y2: float | None = None) -> Markup:
    return tag("line", class_=kind, x1=f"{x1:.2f}%", x2=f"{x2:.2f}%", y1=y1, y2=y1 if y2 is None else y2)
