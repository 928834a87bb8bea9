"""Figures drawn from tables: panels, and dots with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count, groupby
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure, SubFigure

from reachcost.core.files import write_file
from reachcost.results.tables import Records

INTERVAL = "ours, 95 % interval"
"""Label of our values in legends."""
LAST = (INTERVAL, "paper")
"""Labels at the end of a legend."""
TITLE_SIZE = 11
"""Font size of the title of a panel."""
OURS_COLOUR, PAPER_COLOUR = "#1b3a57", "#d1495b"
WIDEST = 9.5
"""Maximum width of a row of panels in inches."""
DOTS = 150
"""Pixels per inch of the PNG of a figure."""
STYLE: dict[Any, Any] = {"font.size": 9, "axes.titlesize": 9.5, "hatch.linewidth": 0.6, "legend.fontsize": 9}
SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "reachcost"}
"""Text stays text, and identifiers are the same every time."""


def new_figure(width: float, height: float, heading: str = "") -> Figure:
    """Return a figure of a size in inches, with an optional heading."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    if heading:
        figure.suptitle(heading)
    return figure


def write_picture(figure: Figure, path: Path) -> None:
    """Write a PNG in one step."""
    picture = BytesIO()
    figure.set_dpi(120)
    _lay_out(figure)
    FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})
    write_file(path, picture.getvalue())


def _lay_out(figure: Figure) -> None:
    """Compute the layout once: `savefig` would draw the figure an additional time for that."""
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine("none")


@dataclass(frozen=True)
class Dot:
    """One row of a picture, with values by metric; consecutive rows of one group share a background."""

    label: str
    group: str
    ours: Mapping[str, float]
    interval: Mapping[str, Sequence[float]] = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)


def draw_dots(
    dots: Sequence[Dot],
    metrics: Mapping[str, str],
    path: Path,
    heading: str,
    references: Mapping[str, tuple[float, str]] | None = None,
) -> None:
    """Write a PNG with one panel per metric and rows from top to bottom.

    Args:
        dots: The rows.
        metrics: Heading of each metric.
        path: The file to write.
        heading: Text above the panels.
        references: Value and name of a vertical line, by metric.
    """
    figure = new_figure(max(8.0, 2.6 + 2.9 * len(metrics)), 1.3 + 0.27 * len(dots), heading)
    panels = [figure.add_subplot(1, len(metrics), place) for place in range(1, len(metrics) + 1)]
    for axes, (metric, title) in zip(panels, metrics.items(), strict=True):
        draw_metric(axes, dots, metric, labelled=axes is panels[0])
        axes.set_title(title, fontsize=TITLE_SIZE)
        if references and metric in references:
            value, name = references[metric]
            axes.axvline(value, color="0.35", linestyle="--", linewidth=1.2, label=name)
    handles = {name: handle for axes in panels for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3, frameon=False)
    write_picture(figure, path)


def draw_metric(axes: Axes, dots: Sequence[Dot], metric: str, labelled: bool = True) -> None:
    """Draw one metric of every row, from top to bottom, with labels or without."""
    places = range(len(dots))
    for number, (_, members) in enumerate(groupby(enumerate(dots), key=lambda dot: dot[1].group)):
        first, *others = [place for place, _ in members]
        if number % 2:
            axes.axhspan(first - 0.5, [first, *others][-1] + 0.5, color="0.95", zorder=0)
    ends = [dot.interval.get(metric, (float("nan"), float("nan"))) for dot in dots]
    axes.hlines(places, [low for low, _ in ends], [high for _, high in ends], color=OURS_COLOUR, linewidth=2.2)
    ours = [(dot.ours[metric], place) for place, dot in enumerate(dots) if metric in dot.ours]
    paper = [(dot.paper[metric], place) for place, dot in enumerate(dots) if metric in dot.paper]
    if ours:
        axes.plot(*zip(*ours, strict=True), "o", color=OURS_COLOUR, markersize=6, label=INTERVAL)
    if paper:
        axes.plot(
            *zip(*paper, strict=True), "D", markerfacecolor="none", color=PAPER_COLOUR, markersize=7, label="paper"
        )
    axes.grid(axis="x", color="0.88")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_yticks(places, [dot.label if labelled else "" for dot in dots])
    axes.set_ylim(len(dots) - 0.5, -0.5)


@dataclass(frozen=True)
class PanelPlan:
    """The declaration of a panel of a figure; sizes are in inches, before a row is stretched to its figure."""

    title: str
    draw: Callable[[Axes, Records], None]
    tables: tuple[str, ...] = ()
    """Tables that it is drawn from, with their runs."""
    width: float = 4.6
    height: float = 3.0


def write_figure(name: str, panels: Sequence[PanelPlan], out: Path) -> list[Path]:
    """Draw panels from the records below `out`, and write them as `out/figures/<name>.svg` and `.png`.

    The metadata of the SVG contain the name of the figure and of the records.
    """
    records, drawing, picture = Records(out), BytesIO(), BytesIO()
    with mpl.rc_context({**STYLE, **SVG}):
        figure = draw_panels(panels, records)
        _lay_out(figure)
        metadata = {"Title": name, "Source": " ".join(records.used), "Creator": "reachcost", "Date": None}
        FigureCanvasSVG(figure).print_svg(drawing, metadata=metadata)
        figure.set_dpi(DOTS)
        FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})
    paths = [out / "figures" / f"{name}.svg", out / "figures" / f"{name}.png"]
    for path, content in zip(paths, (drawing, picture), strict=True):
        write_file(path, content.getvalue())
    return paths


def draw_panels(panels: Sequence[PanelPlan], records: Records) -> Figure:
    """Draw panels in rows, with letters if there are several, and one legend below them."""
    rows = _rows(panels)
    heights = [max(panel.height for panel in row) for row in rows]
    figure = new_figure(max(sum(panel.width for panel in row) for row in rows), sum(heights) + 0.4)
    letters = (f"{letter}   " if len(panels) > 1 else "" for letter in ascii_uppercase)
    below = figure.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0].tolist()
    for row, part in zip(rows, below, strict=True):
        grid = part.add_gridspec(1, len(row), width_ratios=[panel.width for panel in row])
        for number, panel, letter in zip(count(), row, letters, strict=False):
            axes = part.add_subplot(grid[0, number])
            panel.draw(axes, records)
            axes.set_title(f"{letter}{panel.title}", loc="left", fontweight="bold")
    _add_legend(figure, below)
    return figure


def _rows(panels: Sequence[PanelPlan]) -> list[list[PanelPlan]]:
    """Group panels that fit side by side."""
    rows: list[list[PanelPlan]] = []
    for panel in panels:
        if rows and sum(one.width for one in rows[-1]) + panel.width <= WIDEST:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _add_legend(figure: Figure, parts: Sequence[SubFigure]) -> None:
    shared = [axes for part in parts for axes in part.axes if axes.get_legend() is None]
    shown = [axes.get_legend_handles_labels() for axes in shared]
    marks = {name: handle for handles, names in shown for handle, name in zip(handles, names, strict=True)}
    if marks:
        order = [*(name for name in marks if name not in LAST), *(name for name in LAST if name in marks)]
        widest = 0.7 + 0.078 * max(map(len, marks))  # inches of a mark, its name and a gap
        columns = max(1, min(len(marks), int(figure.get_figwidth() / widest)))
        style: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "handlelength": 2.8}
        figure.legend([marks[name] for name in order], order, ncols=columns, **style)
