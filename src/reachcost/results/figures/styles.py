"""How terminal costs look in figures: told apart by colour-blind readers, and in grey by hatch, dash and marker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COLOURS = BLACK, BLUE, VERMILLION, SKY, GREEN, PINK, ORANGE = (
    *("#000000", "#0072b2", "#d55e00", "#56b4e9", "#009e73", "#cc79a7", "#e69f00"),
)
"""Okabe and Ito's."""


@dataclass(frozen=True)
class Look:
    """A name for readers, and how it is drawn."""

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
"""By name of the cost in tables."""
INTERVAL = "ours, 95 % interval"
PAPER: dict[str, Any] = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": BLACK, "linestyle": ""}
"""The paper's values: open marks, whatever they are beside of."""
