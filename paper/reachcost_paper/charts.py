"""Bars in groups with intervals and the paper's values as open marks, and distributions, one line per cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, Stroke

from reachcost.results.figures import INTERVAL, new_figure, write_picture
from reachcost.results.tables import TableRow
from reachcost_paper.panels import PanelPlan, Records

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


START, GOAL, END = ("start", "o", "white", 9), ("goal", "*", "gold", 16), ("end", "X", "crimson", 9)
"""Name, marker, colour and size of marks."""


def draw_mark(axes: Axes, mark: tuple[str, str, str, float], place: np.ndarray) -> None:
    """Draw a mark at a place [2]."""
    label, marker, colour, size = mark
    style = {"color": colour, "markeredgecolor": "black", "markersize": size, "linestyle": ""}
    axes.plot(*place, marker, **style, label=label, zorder=6)


GAP = 0.6
"""Between groups, in bars."""
Wanted = Mapping[str, object]
"""Keys and values that select a row of a table."""
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)))
TICKS = (0, 1, 3, 10, 30, 100)


@dataclass(frozen=True)
class Bar:
    """Our value with its interval, and the paper's value."""

    look: Look
    value: float
    interval: Sequence[float] | None = None
    paper: float | None = None


def bar_of(row: TableRow, metric: str, look: Look | None = None) -> Bar:
    """The bar of a row's metric, by default with the look of the row's cost."""
    return Bar(look or LOOKS[row.cost], row.ours[metric], row.interval.get(metric), (row.paper or {}).get(metric))


def bar_panel(
    title: str,
    table: str,
    metric: str,
    unit: str,
    groups: Mapping[str, Sequence[Wanted]],
    top: float | None = 105,
    looks: Mapping[str, Look] | None = None,
    reference: tuple[float, str] | None = None,
    digits: int | None = None,
    note: str = "",
    **size: float,
) -> PanelPlan:
    """A panel with rows of a table as bars, in named groups.

    In `unit`, `{}` is replaced by the number of episodes. `top` is the end of the axis, by default the largest value.
    `looks` are styles of groups, by default those of the costs. `reference` is the value and name of a horizontal line,
    `digits` the number of digits of values above bars, and `note` a text below the panel.
    """

    def draw(axes: Axes, records: Records) -> None:
        rows = {name: [records.row(table, **one) for one in wanted] for name, wanted in groups.items()}
        numbers = sorted({row.n for found in rows.values() for row in found})
        count = "–".join(f"{n:,}" for n in dict.fromkeys((numbers[0], numbers[-1])))
        bars = {name: [bar_of(row, metric, (looks or {}).get(name)) for row in found] for name, found in rows.items()}
        draw_bars(axes, bars, unit.format(count), top, digits)
        axes.set_xlabel(note)
        if reference is not None:
            axes.axhline(reference[0], color="black", linestyle="--", linewidth=1.2, label=reference[1])

    return PanelPlan(title, draw, (table,), **size)


def draw_bars(
    axes: Axes, groups: Mapping[str, Sequence[Bar]], unit: str, top: float | None = None, digits: int | None = None
) -> None:
    """Draw groups of bars from left to right, each above its name; other arguments are those of `bar_panel`."""
    begin, middles = 0.0, []
    mixed = any(len({bar.look for bar in bars}) > 1 for bars in groups.values())
    for bars in groups.values():
        for number, bar in enumerate(bars):
            _draw(axes, begin + number, bar, bar.look.name if mixed else "")
            if digits is not None:
                highest = max(bar.value, *(bar.interval or ()), bar.paper or 0)
                style = {"ha": "center", "xytext": (0, 5), "textcoords": "offset points", "fontsize": 8}
                axes.annotate(f"{bar.value:.{digits}f}", (begin + number, highest), **style)
        middles.append(begin + (len(bars) - 1) / 2)
        begin += len(bars) + GAP
    axes.set_xticks(middles, [*groups])
    axes.tick_params(axis="x", length=0, pad=7)
    axes.margins(y=0.12)
    axes.set(ylabel=unit, xlim=(-0.5 - GAP, begin - 0.5), ylim=(0, top))
    tidy(axes)


def _draw(axes: Axes, place: float, bar: Bar, label: str) -> None:
    style = {"facecolor": bar.look.colour, "hatch": bar.look.hatch, "edgecolor": "black", "linewidth": 0.8}
    axes.bar(place, bar.value, 0.86, label=label or None, **style)
    if bar.interval is not None:
        low, high = bar.interval
        reach = [[max(bar.value - low, 0)], [max(high - bar.value, 0)]]
        whiskers = axes.errorbar(place, bar.value, reach, fmt="none", ecolor="black", capsize=2.5, label=INTERVAL)
        for line in whiskers.lines[2]:  # a white outline, visible on hatches
            line.set_path_effects([Stroke(linewidth=3.5, foreground="white"), Normal()])
    if bar.paper is not None:
        axes.plot(place, bar.paper, **PAPER, markersize=6, clip_on=False, zorder=5, label="paper")


def tidy(axes: Axes) -> None:
    axes.grid(axis="y", color="0.88")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_distributions(values: Mapping[str, np.ndarray], path: Path, heading: str, unit: str) -> None:
    """Write a PNG with the cumulative distribution of the values [N] of each name."""
    figure = new_figure(8.0, 5.2, heading)
    axes = figure.add_subplot()
    order = sorted(values, key=lambda name: values[name].mean())
    for name, shade, style in zip(order, cycle(COLOURS), cycle(STYLES), strict=False):
        draw_share(axes, values[name], f"{name} (mean {values[name].mean():.1f})", shade, style)
    log_axes(axes, unit)
    figure.legend(loc="outside right center", frameon=False)
    write_picture(figure, path)


def draw_share(axes: Axes, values: np.ndarray, label: str, colour: str, style: object) -> None:
    """Draw the cumulative distribution of values [N], in percent."""
    x = np.sort(values)
    share = 100 * np.arange(1, len(x) + 1) / len(x)
    axes.step([0, *x], [0, *share], where="post", color=colour, linestyle=style, linewidth=2, label=label)


def log_axes(axes: Axes, unit: str) -> None:
    """Axes for values from 0 to 100, linear up to 1: good costs differ near zero, bad ones far from it."""
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
    axes.set(xlabel=unit, ylabel="% of episodes, cumulative", ylim=(0, 101), xlim=(0, 100))
    axes.grid(color="0.9")
