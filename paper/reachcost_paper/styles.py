"""Styles of costs, of the paper's values, and of maps in figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

COLOURS = BLACK, BLUE, VERMILLION, SKY, GREEN, PINK, ORANGE = (
    *("#000000", "#0072b2", "#d55e00", "#56b4e9", "#009e73", "#cc79a7", "#e69f00"),
)
"""Palette of Okabe and Ito."""


@dataclass(frozen=True)
class Look:
    """Name and style of a cost or a route."""

    name: str
    colour: str
    hatch: str = ""
    dash: str | tuple[float, tuple[float, ...]] = "-"


LOOKS = {
    "raw": Look("raw latent distance", ORANGE, "///", "--"),
    "trm-complete": Look("TRM, paper's recipe, all logs", BLUE),
    "trm-paper": Look("TRM, paper's recipe", BLUE),
    "trm-gap50": Look("the same, gaps up to 50 steps", SKY, "xxx", "-."),
    "trm": Look("TRM, our recipe", GREEN, "\\\\\\", (0, (8, 2))),
    "shuffled": Look("shuffled labels", "#b8b8b8", "...", ":"),
    "oracle": Look("oracle", "#ffffff", "", (0, (1, 1))),
    "decoded-xy": Look("decoded position", PINK, "++", (0, (5, 1, 1, 1))),
    "rowspace": Look("position's 2 directions alone", SKY, "xxx", "-."),
    "residual": Look("the other 190 alone", "#b8b8b8", "...", ":"),
    "geodesic-mlp": Look("head on true distances", BLUE),
    "task-state": Look("head on true distances", BLUE),
    "hybrid": Look("hybrid: head and raw", PINK, "++", (0, (5, 1, 1, 1))),
    "shuffled-hybrid": Look("hybrid, shuffled labels", "#b8b8b8", "...", ":"),
}
"""Styles by the name of the cost in tables."""
PAPER: dict[str, Any] = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": BLACK, "linestyle": ""}
"""Style of the paper's values: open marks."""
BLOCKED, OPEN = Look("straight line, blocked", VERMILLION, dash="--"), Look("shortest route", BLUE)


def draw_walls(axes: Axes, walls: Sequence[tuple[float, float, float, float]], low: float, high: float) -> None:
    """Walls, each (x, y, width, height), in a square from `low` to `high`; y grows downwards."""
    for x, y, width, height in walls:
        axes.add_patch(Rectangle((x, y), width, height, facecolor="0.25", edgecolor="none"))
    axes.set(xlim=(low, high), ylim=(high, low), aspect="equal")


def draw_route(axes: Axes, places: np.ndarray, look: Look) -> None:
    """A route through places [N, 2]."""
    axes.plot(*places.T, color=look.colour, linestyle=look.dash, linewidth=2.2, label=look.name)
