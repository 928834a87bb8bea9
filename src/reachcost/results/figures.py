"""Pictures of tables: dots with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import groupby
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reachcost.core.files import write_file

INTERVAL = "ours, 95 % interval"  # label of our values in legends
TITLE_SIZE = 11  # font size of the title of a panel
OURS_COLOUR, PAPER_COLOUR = "#1b3a57", "#d1495b"


def new_figure(width: float, height: float, heading: str = "") -> Figure:
    """A figure of a size in inches, with an optional heading."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    if heading:
        figure.suptitle(heading)
    return figure


def write_picture(figure: Figure, path: Path) -> None:
    """Write a PNG in one step."""
    picture = BytesIO()
    figure.set_dpi(120)
    lay_out(figure)
    FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})
    write_file(path, picture.getvalue())


def lay_out(figure: Figure) -> None:
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
