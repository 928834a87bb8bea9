"""Worlds seen from above: walls, ways, where they begin and should end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from reachcost.results.figures.styles import BLUE, VERMILLION, Look

START, GOAL, END = ("start", "o", "white", 9), ("goal", "*", "gold", 16), ("end", "X", "crimson", 9)
"""Name, marker, colour and size of marks."""
WALL = "0.25"
BLOCKED, OPEN = Look("straight line, blocked", VERMILLION, dash="--"), Look("shortest way", BLUE)


def draw_walls(axes: Axes, walls: Sequence[tuple[float, float, float, float]], low: float, high: float) -> None:
    """Walls, each (x, y, width, height), in a square from `low` to `high`; y grows downwards."""
    for x, y, width, height in walls:
        axes.add_patch(Rectangle((x, y), width, height, facecolor=WALL, edgecolor="none"))
    axes.set(xlim=(low, high), ylim=(high, low), aspect="equal")


def draw_way(axes: Axes, places: np.ndarray, look: Look) -> None:
    """A way through places [N, 2]."""
    axes.plot(*places.T, color=look.colour, linestyle=look.dash, linewidth=2.2, label=look.name)


def draw_mark(axes: Axes, mark: tuple[str, str, str, float], place: np.ndarray) -> None:
    """A mark at a place [2]."""
    label, marker, colour, size = mark
    style = {"color": colour, "markeredgecolor": "black", "markersize": size, "linestyle": ""}
    axes.plot(*place, marker, **style, label=label, zorder=6)
