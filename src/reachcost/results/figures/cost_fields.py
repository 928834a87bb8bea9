"""One picture of one episode: what a cost says about every place, and where the planner went under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reachcost.results.figures.canvas import TITLE_SIZE, new_figure, write_picture
from reachcost.results.figures.maps import END, GOAL, START, draw_mark


@dataclass(frozen=True)
class Panel:
    """What one cost made of the episode.

    Attributes:
        title: Name of the cost.
        outcome: How the episode came out.
        unit: What the cost counts.
        field: Cost of ending at places on a regular grid [rows, columns]; NaN where nobody can be.
        path: Visited places [steps + 1, 2], as (x, y).
        reached: Whether the goal was reached.
        within: How near to the goal is there, if that is a matter of distance.
    """

    title: str
    outcome: str
    unit: str
    field: np.ndarray
    path: np.ndarray
    reached: bool
    within: float = 0.0


def draw_cost_fields(
    goal: np.ndarray, panels: Sequence[Panel], extent: tuple[float, float], path: Path, heading: str
) -> None:
    """Write a PNG with one panel per cost, side by side.

    Args:
        goal: The goal [2], as (x, y).
        panels: What to draw.
        extent: Lower and upper edge of the fields, the same for x and y; y grows downwards.
        path: The file to write.
        heading: A line above the panels.
    """
    figure = new_figure(5.2 * len(panels), 5.9, heading)
    for number, panel in enumerate(panels, start=1):
        _draw(figure.add_subplot(1, len(panels), number), goal, panel, extent)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    write_picture(figure, path)


def _draw(axes: Axes, goal: np.ndarray, panel: Panel, extent: tuple[float, float]) -> None:
    low, high = extent
    colours = mpl.colormaps["cividis"].with_extremes(bad="0.25")
    image = axes.imshow(panel.field, cmap=colours, vmin=0, extent=(low, high, high, low))
    label, ticks = f"cost of ending at a place: {panel.unit}", MaxNLocator(5)
    axes.figure.colorbar(image, ax=axes, location="bottom", shrink=0.8, ticks=ticks, label=label)
    cell = (high - low) / len(panel.field)
    centres = low + cell * (np.arange(len(panel.field)) + 0.5)
    levels = np.linspace(np.nanmin(panel.field), np.nanmax(panel.field), 14)[1:-1]
    axes.contour(centres, centres, panel.field, levels=levels, colors="white", linewidths=0.5, alpha=0.6)
    axes.plot(*panel.path.T, color="crimson", linewidth=2.2, label="executed path")
    draw_mark(axes, START, panel.path[0])
    draw_mark(axes, GOAL, goal)
    if not panel.reached:
        draw_mark(axes, END, panel.path[-1])
    axes.set_title(f"{panel.title}: {panel.outcome}", fontsize=TITLE_SIZE)
    axes.set(xticks=[], yticks=[], xlim=(low, high), ylim=(high, low))
