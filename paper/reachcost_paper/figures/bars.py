"""Bars with their intervals, side by side in groups, and the paper's values as open marks on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, Stroke

from reachcost.results.figures import INTERVAL, LOOKS, PAPER, Look, PanelPlan
from reachcost.results.tables import Records, TableRow

GAP = 0.6
"""Between groups, in bars."""
Wanted = Mapping[str, object]
"""What tells a line of a table from the others."""


@dataclass(frozen=True)
class Bar:
    """One value.

    Attributes:
        look: What it is of.
        value: Ours.
        interval: Its interval, if there is one.
        paper: The paper's value, if it prints one.
    """

    look: Look
    value: float
    interval: Sequence[float] | None = None
    paper: float | None = None


def bar_of(row: TableRow, metric: str, look: Look | None = None) -> Bar:
    """A value of a line of a table; by default it looks as its cost does."""
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
    """A panel of lines of a table as bars.

    Args:
        title: Of the panel.
        table: The table.
        metric: The column.
        unit: What its values count; how many episodes they are of is put into the braces in it.
        groups: Which lines stand side by side above which name.
        top: End of the axis, by default that of percentages; none for where the values end.
        looks: How a group looks, if not as the costs in it.
        reference: A value that deserves a line, and its name.
        digits: Of our values, written above their bars, where these are too low to be read.
        note: A line below the panel.
        size: Width and height of the panel.
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
    axes: Axes,
    groups: Mapping[str, Sequence[Bar]],
    unit: str,
    top: float | None = None,
    digits: int | None = None,
) -> None:
    """Draw groups of bars from left to right, each group above its name.

    Args:
        axes: Where to draw.
        groups: Bars by the name of their group.
        unit: What values count.
        top: End of the axis; by default where the values end.
        digits: Of values that are written above their bars, if they are.
    """
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
        drawn = axes.errorbar(place, bar.value, reach, fmt="none", ecolor="black", capsize=2.5, label=INTERVAL)
        for line in drawn.lines[2]:  # to be seen on hatches, too
            line.set_path_effects([Stroke(linewidth=3.5, foreground="white"), Normal()])
    if bar.paper is not None:
        axes.plot(place, bar.paper, **PAPER, markersize=6, clip_on=False, zorder=5, label="paper")


def tidy(axes: Axes) -> None:
    """A light grid behind what is drawn, and no more frame than is needed."""
    axes.grid(axis="y", color="0.88")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
