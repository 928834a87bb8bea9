"""A curve: some work at several sizes, and how its time may grow with them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Prepare = Callable[[int, Path], Callable[[], object]]
"""Makes the work of a size, which may write into a directory. A function of a module: another process imports it."""
LINEAR = 1.1
"""Largest exponent that counts as linear: timers and caches are not exact."""


@dataclass(frozen=True)
class Curve:
    """A line of the record."""

    name: str
    """What is done, by what."""
    says: str
    """What stays the same at all sizes."""
    unit: str
    """What sizes count."""
    sizes: tuple[int, ...]
    """Ascending."""
    prepare: Prepare
    """Makes the work of a size. It is not timed."""
    most: float = LINEAR
    """Largest exponent of time against size that is promised."""


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """How values grow over the upper half of the sizes: the slope of their logarithms; None of fewer than two.

    >>> exponent([1, 2, 4, 8], [5, 5, 16, 64])
    2.0
    """
    upper = slice(len(sizes) // 2, None)
    x, y = ([math.log2(number) for number in numbers[upper]] for numbers in (sizes, values))
    return statistics.linear_regression(x, y).slope if len(x) > 1 else None
