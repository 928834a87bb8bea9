"""A world seen from above: where its states lie, which states lie where, and what of it can be moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Plane:
    """How states of a world lie on a rectangle of (x, y), y growing downwards.

    >>> plane = Plane((0, 0), (2, 1), 0.5, lambda s: s, lambda p: p, lambda p: p[:, 0] > 1)
    >>> plane.grid().shape, plane.grid()[0, :2].tolist()
    ((2, 4, 2), [[0.25, 0.25], [0.75, 0.25]])
    """

    low: tuple[float, float]
    """The upper left corner."""
    high: tuple[float, float]
    """The lower right one."""
    cell: float
    """How far apart places are that are worth telling apart on a map."""
    places: Callable[[np.ndarray], np.ndarray]
    """Where states lie: [N, ...] -> (x, y) [N, 2]."""
    states: Callable[[np.ndarray], np.ndarray]
    """The state at rest at places, or at the nearest that there is: [N, 2] -> [N, ...]."""
    free: Callable[[np.ndarray], np.ndarray]
    """Whether an agent can be at places [N, 2]: bool [N]; states are asked for there alone."""

    def grid(self) -> np.ndarray:
        """Centres of the cells of a map, float [rows, columns, 2]."""
        x, y = (
            np.linspace(low, high, round((high - low) / self.cell), endpoint=False) + self.cell / 2
            for low, high in zip(self.low, self.high, strict=True)
        )
        return np.stack(np.meshgrid(x, y), axis=-1)


@dataclass(frozen=True)
class Handle:
    """A part of a world that can be moved along a line of its plane.

    >>> Handle("door", (5, 0), (5, 10), 0.25).place
    (5.0, 2.5)
    """

    name: str
    """What is moved."""
    start: tuple[float, float]
    """Where it is at value 0."""
    end: tuple[float, float]
    """Where it is at value 1."""
    value: float
    """Where it is now, from 0 to 1."""
    positions: int | None = None
    """How many positions there are, evenly from start to end; None for any."""

    @property
    def place(self) -> tuple[float, float]:
        """Where it is now, (x, y)."""
        x, y = ((1 - self.value) * first + self.value * last for first, last in zip(self.start, self.end, strict=True))
        return x, y
