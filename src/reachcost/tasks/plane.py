"""A world seen from above: where its states lie, and which states lie where."""

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
