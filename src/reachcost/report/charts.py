"""Positions in charts, in percent of the width or height. The templates in `charts.html.j2` render them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

Scale = Callable[[float], float]
"""From a value to percent of the width."""


def linear(low: float, high: float) -> Scale:
    """A linear scale; values outside of it are clipped.

    >>> linear(0, 50)(20), linear(0, 50)(70)
    (40.0, 100.0)
    """
    return lambda value: float(np.clip(100 * (value - low) / ((high - low) or 1), 0, 100))


def logarithmic(high: float) -> Scale:
    """A logarithmic scale from 0, which gives most room to small values. Both ends leave room for a dot.

    >>> [round(logarithmic(100)(value)) for value in (0, 1, 10, 100)]
    [1, 16, 52, 99]
    """
    return lambda value: float(1 + 98 * np.log1p(np.clip(value, 0, high)) / np.log1p(high))


def swarm(scale: Scale, values: np.ndarray) -> Mapping[str, object]:
    """Dots of values, their quartiles and their median, for the macro `beeswarm`."""
    low, median, high = map(scale, np.percentile(values, (25, 50, 75)))
    return {"low": low, "median": median, "high": high, "dots": [scale(value) for value in np.sort(values)]}


def polyline(values: Sequence[float], scale: Scale) -> str:
    """Points of a curve from left to right.

    >>> polyline([0.0, 2.0, 1.0], linear(4, 0))
    '0.00,100.00 50.00,50.00 100.00,75.00'
    """
    last = max(1, len(values) - 1)
    return " ".join(f"{100 * at / last:.2f},{scale(value):.2f}" for at, value in enumerate(values))
