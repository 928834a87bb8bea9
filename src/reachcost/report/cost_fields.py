"""One picture of one episode: what a cost says about every cell, and where the planner went under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reachcost.atomic import write_file
from reachcost.tasks.toponav import SIZE, TopoNav


@dataclass(frozen=True)
class Panel:
    """What one cost made of the episode.

    Attributes:
        title: Name of the cost and how the episode came out.
        unit: What the cost counts.
        costs: Cost of every free cell against the goal [677].
        path: Visited cells [steps + 1, 2].
    """

    title: str
    unit: str
    costs: np.ndarray
    path: np.ndarray


def draw_cost_fields(task: TopoNav, goal: np.ndarray, panels: Sequence[Panel], path: Path, heading: str) -> None:
    """Write a PNG with one panel per cost, side by side, for the goal cell [2]."""
    with mpl.rc_context({"font.size": 10, "axes.titlesize": 11}):
        figure = Figure(figsize=(5.2 * len(panels), 5.9), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(heading)
        for number, panel in enumerate(panels, start=1):
            _draw(figure.add_subplot(1, len(panels), number), task, goal, panel)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        picture = BytesIO()
        figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    write_file(path, picture.getvalue())


def _draw(axes: Axes, task: TopoNav, goal: np.ndarray, panel: Panel) -> None:
    field = np.full((SIZE, SIZE), np.nan)
    field[task.cells[:, 1], task.cells[:, 0]] = panel.costs
    colours = mpl.colormaps["cividis"].with_extremes(bad="0.25")
    image = axes.imshow(field, cmap=colours, vmin=0)
    label, ticks = f"cost of ending in a cell: {panel.unit}", MaxNLocator(5)
    axes.figure.colorbar(image, ax=axes, location="bottom", shrink=0.8, ticks=ticks, label=label)
    levels = np.linspace(np.nanmin(field), np.nanmax(field), 14)[1:-1]
    axes.contour(field, levels=levels, colors="white", linewidths=0.5, alpha=0.6)
    axes.plot(*panel.path.T, color="crimson", linewidth=2.2, label="executed path")
    marks = [("start", panel.path[0], "o", "white", 9), ("goal", goal, "*", "gold", 16)]
    if (panel.path[-1] != goal).any():
        marks.append(("end", panel.path[-1], "X", "crimson", 9))
    for label, cell, marker, colour, size in marks:
        axes.plot(*cell, marker, color=colour, markeredgecolor="black", markersize=size, label=label, linestyle="")
    axes.set(title=panel.title, xticks=[], yticks=[])
