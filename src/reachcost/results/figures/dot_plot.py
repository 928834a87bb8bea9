"""A table as a picture: ours with its interval, the paper's beside it; told apart by shape, not by colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from matplotlib.axes import Axes

from reachcost.results.figures.canvas import TITLE_SIZE, new_figure, write_picture

OURS, PAPER = "#1b3a57", "#d1495b"


@dataclass(frozen=True)
class Dot:
    """One line of a picture.

    Attributes:
        label: What the line is about.
        group: Lines of one group that follow each other share a background.
        ours: Our value by metric.
        interval: Its interval by metric.
        paper: The paper's value by metric.
    """

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
    """Write a PNG with one panel per metric, lines from top to bottom.

    Args:
        dots: The lines.
        metrics: Heading of each metric.
        path: The file to write.
        heading: A line above the panels.
        references: A value of a metric that deserves a line, and its name.
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
    """One metric of every line, from top to bottom, with their labels or without."""
    places = range(len(dots))
    for number, (_, members) in enumerate(groupby(enumerate(dots), key=lambda dot: dot[1].group)):
        first, *others = [place for place, _ in members]
        if number % 2:
            axes.axhspan(first - 0.5, [first, *others][-1] + 0.5, color="0.95", zorder=0)
    axes.hlines(places, *_ends(dots, metric), color=OURS, linewidth=2.2)
    ours = [(dot.ours[metric], place) for place, dot in enumerate(dots) if metric in dot.ours]
    paper = [(dot.paper[metric], place) for place, dot in enumerate(dots) if metric in dot.paper]
    if ours:
        axes.plot(*zip(*ours, strict=True), "o", color=OURS, markersize=6, label="ours, 95 % interval")
    if paper:
        axes.plot(*zip(*paper, strict=True), "D", markerfacecolor="none", color=PAPER, markersize=7, label="paper")
    axes.grid(axis="x", color="0.88")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_yticks(places, [dot.label if labelled else "" for dot in dots])
    axes.set_ylim(len(dots) - 0.5, -0.5)


def _ends(dots: Sequence[Dot], metric: str) -> tuple[list[float], list[float]]:
    nothing = (float("nan"), float("nan"))
    bounds = [tuple(dot.interval.get(metric, nothing)) for dot in dots]
    return [low for low, _ in bounds], [high for _, high in bounds]
