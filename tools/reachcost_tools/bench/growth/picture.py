"""How time and memory grow with the size of some work, beside what would be linear; shapes tell lines apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from reachcost.results.figures import TITLE_SIZE, new_figure, write_picture

LINE, GREY = "#1b3a57", "0.45"
COLUMNS = 3


@dataclass(frozen=True)
class Growth:
    """One curve.

    Attributes:
        title: What grows, by what.
        unit: What sizes count.
        sizes: Ascending.
        seconds: Time of each.
        memory: Peak of each, in MB.
    """

    title: str
    unit: str
    sizes: Sequence[float]
    seconds: Sequence[float]
    memory: Sequence[float]


def draw_growth(curves: Sequence[Growth], idle: float, most: float, path: Path) -> None:
    """Write a PNG with a panel of time and one of memory below it for each curve.

    Args:
        curves: What to draw.
        idle: MB of a process that does nothing.
        most: MB that none may exceed.
        path: The file to write.
    """
    rows = -(-len(curves) // COLUMNS)
    figure = new_figure(3.7 * COLUMNS, 0.9 + 3.6 * rows, "How time and memory grow, one thread")
    grid = figure.add_gridspec(2 * rows, COLUMNS, height_ratios=[2, 1] * rows)
    for number, curve in enumerate(curves):
        row, column = divmod(number, COLUMNS)
        time = figure.add_subplot(grid[2 * row, column])
        memory = figure.add_subplot(grid[2 * row + 1, column], sharex=time)
        _draw_time(time, curve)
        _draw_memory(memory, curve, idle, most)
        if not column:
            time.set_ylabel("seconds")
            memory.set_ylabel("MB")
    shown = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes]
    handles = {name: handle for pairs in shown for handle, name in pairs}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=5, frameon=False)
    write_picture(figure, path)


def _draw_time(axes: Axes, curve: Growth) -> None:
    axes.loglog(curve.sizes, curve.seconds, "o-", color=LINE, linewidth=2, label="time")
    last = curve.seconds[-1] / curve.sizes[-1]
    axes.loglog(curve.sizes, [last * size for size in curve.sizes], "--", color=GREY, label="time, were it linear")
    axes.set_title(curve.title, fontsize=TITLE_SIZE)
    axes.tick_params(labelbottom=False)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    _tidy(axes)


def _draw_memory(axes: Axes, curve: Growth, idle: float, most: float) -> None:
    axes.plot(curve.sizes, curve.memory, "s-", color=LINE, markerfacecolor="white", label="peak of memory")
    axes.axhline(idle, color=GREY, linestyle=":", label="an idle process")
    axes.axhline(most, color=GREY, linestyle="-.", label="at most")
    axes.set(xlabel=curve.unit, ylim=(0, 1.1 * most))
    axes.set_xticks(curve.sizes, [_short(size) for size in curve.sizes])
    _tidy(axes)


def _tidy(axes: Axes) -> None:
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _short(size: float) -> str:
    """A size that fits below its tick.

    >>> _short(30), _short(3000), _short(10_000_000)
    ('30', '3k', '10M')
    """
    unit, name = next((unit, name) for unit, name in ((1e6, "M"), (1e3, "k"), (1, "")) if size >= unit)
    return f"{size / unit:g}{name}"
