"""Figure of how time and memory grow with the size of some work, next to linear growth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from reachcost.results.figures import TITLE_SIZE, new_figure, write_picture

LINE, GREY = "#1b3a57", "0.45"
COLUMNS = 3


def draw_growth(curves: Mapping[str, dict[str, Any]], idle: float, most: float, path: Path) -> None:
    """Write a PNG with a panel of time and one of memory below it for each curve.

    Args:
        curves: Rows of the record by title, with `unit`, `sizes`, `seconds` and `peak_memory_mb`.
        idle: Megabytes of an idle process.
        most: Maximum megabytes.
        path: The file to write.
    """
    rows = -(-len(curves) // COLUMNS)
    figure = new_figure(3.7 * COLUMNS, 0.9 + 3.6 * rows, "How time and memory grow, one thread")
    grid = figure.add_gridspec(2 * rows, COLUMNS, height_ratios=[2, 1] * rows)
    for number, (title, curve) in enumerate(curves.items()):
        row, column = divmod(number, COLUMNS)
        time = figure.add_subplot(grid[2 * row, column])
        memory = figure.add_subplot(grid[2 * row + 1, column], sharex=time)
        time.set_title(title, fontsize=TITLE_SIZE)
        _draw_time(time, curve["sizes"], curve["seconds"])
        _draw_memory(memory, curve, idle, most)
        if not column:
            time.set_ylabel("seconds")
            memory.set_ylabel("MB")
    shown = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes]
    handles = {name: handle for pairs in shown for handle, name in pairs}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=5, frameon=False)
    write_picture(figure, path)


def _draw_time(axes: Axes, sizes: list[float], seconds: list[float]) -> None:
    axes.loglog(sizes, seconds, "o-", color=LINE, linewidth=2, label="time")
    linear = [seconds[-1] * size / sizes[-1] for size in sizes]
    axes.loglog(sizes, linear, "--", color=GREY, label="linear growth")
    axes.tick_params(labelbottom=False)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    _tidy(axes)


def _draw_memory(axes: Axes, curve: dict[str, Any], idle: float, most: float) -> None:
    sizes = curve["sizes"]
    axes.plot(sizes, curve["peak_memory_mb"], "s-", color=LINE, markerfacecolor="white", label="peak memory")
    axes.axhline(idle, color=GREY, linestyle=":", label="idle process")
    axes.axhline(most, color=GREY, linestyle="-.", label="maximum")
    axes.set(xlabel=curve["unit"], ylim=(0, 1.1 * most))
    axes.set_xticks(sizes, [_short(size) for size in sizes])
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
