"""How time and memory grow with the size of the work: measurement, record and figure of `reachcost bench --growth`."""

import json
import math
import multiprocessing
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter, NullLocator

from reachcost.core.files import write_file
from reachcost.core.machine import machine, versions
from reachcost.core.progress import Progress
from reachcost.results.figures import TITLE_SIZE, new_figure, write_picture
from reachcost_tools.bench.comparison import Side, peak_memory, rounded, seconds_of
from reachcost_tools.bench.record import load_per_core

Prepare = Callable[[int, Path], Callable[[], object]]
"""Returns the work of a size, which may write into a directory; a module's function, as another process imports it."""
LINEAR = 1.1
"""Maximum exponent that counts as linear: timers and caches are not exact."""
MOST_MEMORY = 2000
"""Maximum megabytes of any work, whatever its size."""
LONG = 20.0
"""Seconds from which work is done once; shorter work is repeated, as the first time takes longer."""
ENOUGH, REPEATS = 3.0, 20
"""Seconds, or number of times, after which work is not repeated."""
LINE, GREY, COLUMNS = "#1b3a57", "0.45", 3
"""Colours and columns of the figure."""


@dataclass(frozen=True)
class Curve:
    """Some work at several sizes: a row of the record."""

    name: str
    says: str
    """Settings that are equal at all sizes."""
    unit: str
    """Unit of the sizes."""
    sizes: tuple[int, ...]
    """Ascending."""
    prepare: Prepare
    """Makes the work of a size. It is not timed."""
    most: float = LINEAR
    """Target: maximum exponent of time against size."""


class Point(NamedTuple):
    """Time and memory of one size."""

    seconds: float
    """On one thread, the minimum of the repeats."""
    memory: float
    """Peak megabytes of the process, preparation included."""


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """Slope of log values against log sizes over the upper half of the sizes; None for fewer than two."""
    upper = slice(len(sizes) // 2, None)
    x, y = ([math.log2(number) for number in numbers[upper]] for numbers in (sizes, values))
    return statistics.linear_regression(x, y).slope if len(x) > 1 else None


def in_new_process(prepare: Prepare, size: int) -> Point:
    """Measure a size in a new process, whose peak memory includes nothing else; its exceptions are raised here."""
    with (
        TemporaryDirectory(prefix="reachcost-growth-") as directory,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process,
    ):
        return process.submit(measured, prepare, size, Path(directory)).result()


def measured(prepare: Prepare, size: int, directory: Path) -> Point:
    """Measure a size in this process."""
    side = Side(prepare(size, directory), threads=1)
    seconds = [seconds_of(side)]
    while seconds[0] < LONG and sum(seconds[1:]) < ENOUGH and len(seconds) < REPEATS:
        seconds.append(seconds_of(side))
    return Point(min(seconds), peak_memory())


def idle(_: int, __: Path) -> Callable[[], object]:
    """No work, in a process that has imported what all curves need."""
    import reachcost_tools.bench.growth_work  # noqa: F401

    return lambda: None


def path_in(out: Path) -> Path:
    """Path of the record."""
    return out / "benchmarks" / "growth.json"


def figure_in(out: Path) -> Path:
    """Path of its figure."""
    return out / "figures" / "growth.png"


def run(curves: Sequence[Curve], progress: Progress) -> dict[str, Any]:
    """Measure curves and return the record; sizes that fail are in `failed` and not in their curve."""
    load = load_per_core()
    nothing = in_new_process(idle, 0)
    rows: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for curve in curves:
        progress.step(curve.name)
        points: dict[int, Point] = {}
        for size in progress.track(curve.sizes, "sizes"):
            try:
                points[size] = in_new_process(curve.prepare, size)
            except Exception as error:  # the other sizes can be measured
                failed[f"{curve.name}, {size:,} {curve.unit}"] = f"{type(error).__name__}: {error}"
        rows[curve.name] = _row(curve, points)
    return {
        "machine": machine(),
        "load_per_core_before": round(load, 2),
        "versions": versions(),
        "threads": 1,
        "idle_memory_mb": round(nothing.memory),
        "most_memory_mb": MOST_MEMORY,
        "curves": rows,
        "failed": failed,
    }


def _row(curve: Curve, points: dict[int, Point]) -> dict[str, Any]:
    seconds = [point.seconds for point in points.values()]
    slope = exponent([*points], seconds)
    return {
        "says": curve.says,
        "unit": curve.unit,
        "sizes": [*points],
        "seconds": [rounded(time) for time in seconds],
        "peak_memory_mb": [round(point.memory) for point in points.values()],
        "slope": None if slope is None else round(slope, 2),
        "slope_promised": curve.most,
    }


def missed_targets(record: dict[str, Any]) -> list[str]:
    """Curves that grow faster than their target, hold more memory, or failed."""
    broken = []
    for name, row in record["curves"].items():
        if row["slope"] is not None and row["slope"] > row["slope_promised"]:
            broken.append(f"{name} grows with exponent {row['slope']:g}, target {row['slope_promised']:g}")
        if max(row["peak_memory_mb"], default=0) > record["most_memory_mb"]:
            held = max(row["peak_memory_mb"])
            broken.append(f"{name} holds {held:,} MB, target {record['most_memory_mb']:,}")
    return [*broken, *(f"{where} failed ({why})" for where, why in record["failed"].items())]


def table(record: dict[str, Any]) -> list[str]:
    """The record as lines of a Markdown table, as docs/speed.md shows it."""
    heading = ["| work | size | seconds | exponent | target | MB |", "| --- | --- | --- | ---: | ---: | ---: |"]
    return heading + [
        f"| {name} | {_ends(row['sizes'])} {row['unit']} | {_ends(row['seconds'])} | {row['slope']:.2f} "
        f"| {row['slope_promised']:g} | {_ends(row['peak_memory_mb'])} |"
        for name, row in record["curves"].items()
        if row["slope"] is not None
    ]


def _ends(numbers: Sequence[float]) -> str:
    return " to ".join(f"{number:,.0f}" if number >= 100 else f"{number:.3g}" for number in (numbers[0], numbers[-1]))


def write(record: dict[str, Any], out: Path) -> list[Path]:
    """Write the record below a directory and, unless everything failed, its figure; return their paths."""
    write_file(path_in(out), json.dumps(record, indent=2) + "\n")
    drawn = {name: row for name, row in record["curves"].items() if row["sizes"]}
    if not drawn:
        return [path_in(out)]
    _draw(drawn, record, figure_in(out))
    return [path_in(out), figure_in(out)]


def _draw(curves: Mapping[str, dict[str, Any]], record: dict[str, Any], path: Path) -> None:
    """Write a PNG with a panel of time and one of memory below it for each curve."""
    rows = -(-len(curves) // COLUMNS)
    figure = new_figure(3.7 * COLUMNS, 0.9 + 3.6 * rows, "How time and memory grow, one thread")
    grid = figure.add_gridspec(2 * rows, COLUMNS, height_ratios=[2, 1] * rows)
    for number, (title, curve) in enumerate(curves.items()):
        row, column = divmod(number, COLUMNS)
        time = figure.add_subplot(grid[2 * row, column])
        memory = figure.add_subplot(grid[2 * row + 1, column], sharex=time)
        time.set_title(title, fontsize=TITLE_SIZE)
        _draw_time(time, curve["sizes"], curve["seconds"])
        _draw_memory(memory, curve, record)
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
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    _tidy(axes)


def _draw_memory(axes: Axes, curve: dict[str, Any], record: dict[str, Any]) -> None:
    sizes, most = curve["sizes"], record["most_memory_mb"]
    axes.plot(sizes, curve["peak_memory_mb"], "s-", color=LINE, markerfacecolor="white", label="peak memory")
    axes.axhline(record["idle_memory_mb"], color=GREY, linestyle=":", label="idle process")
    axes.axhline(most, color=GREY, linestyle="-.", label="maximum")
    axes.set(xlabel=curve["unit"], ylim=(0, 1.1 * most))
    axes.set_xticks(sizes)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    _tidy(axes)


def _tidy(axes: Axes) -> None:
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
