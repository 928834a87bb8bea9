"""Draw the pictures of docs/tworoom.md: the layout, some logged trajectories, two distance maps to one goal.

python examples/draw_tworoom.py docs/images
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

import reachcost as rc
from reachcost.tasks.tworoom.renderer import background

GOAL = np.array([165.0, 165.0])


def new_figure(panels: int) -> tuple[Figure, list[Axes]]:
    """A row of square panels without ticks."""
    figure = Figure(figsize=(4.6 * panels, 4.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, panels, number + 1) for number in range(panels)]
    for axis in axes:
        axis.set(xticks=[], yticks=[])
    return figure, axes


def draw_world(task: rc.tasks.TwoRoom, path: Path) -> None:
    """A frame of the task, and trajectories of the public policy in the same room and across the wall."""
    logs = task.generate_logs(episodes=60, seed=0)
    figure, (left, right) = new_figure(2)
    left.imshow(task.render(np.array([[60.0, 150.0]]))[0])
    left.set_title("a 224 px frame")
    right.imshow(background(task.layout).astype(np.uint8))
    colours = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"]  # told apart by colour-blind readers
    long = np.flatnonzero(logs.lengths > 40)[:6]
    for colour, episode in zip(colours, long, strict=True):
        rows = slice(int(logs.offsets[episode]), int(logs.offsets[episode] + logs.lengths[episode]))
        states = logs.columns["state"][rows]
        right.plot(*states.T, color=colour, linewidth=1.3)
        right.plot(*states[0], "o", color=colour, markeredgecolor="black", markersize=7)
        right.plot(*states[-1], "*", color=colour, markeredgecolor="black", markersize=13)
    right.set_title("six logged trajectories (circle: start, star: end)")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def draw_distances(task: rc.tasks.TwoRoom, path: Path) -> None:
    """Euclidean and geodesic distance of every place to one goal."""
    x, y = np.meshgrid(np.arange(21.0, 204), np.arange(21.0, 204))
    points = np.stack([x, y], axis=-1)
    solid = task.layout.solid(points)
    goal = np.broadcast_to(GOAL, points.shape)
    maps = {"Euclidean": task.euclidean(points, goal), "geodesic": task.distance(points, goal)}
    top = max(float(values.max()) for values in maps.values())
    norm = Normalize(0, top)
    figure, axes = new_figure(2)
    for axis, (name, values) in zip(axes, maps.items(), strict=True):
        shown = np.where(solid, np.nan, values)
        colours = mpl.colormaps["cividis"].with_extremes(bad="0.25")
        axis.imshow(shown, cmap=colours, norm=norm, extent=(21, 204, 204, 21))
        axis.contour(x, y, shown, levels=np.arange(20, top, 20), colors="white", linewidths=0.6, alpha=0.7)
        axis.plot(*GOAL, "*", color="gold", markeredgecolor="black", markersize=16)
        axis.set_title(f"{name} distance to the goal")
    figure.colorbar(ScalarMappable(norm, "cividis"), ax=axes, location="bottom", shrink=0.5, label="pixels")
    figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    out.mkdir(parents=True, exist_ok=True)
    draw_world(rc.make_task("tworoom"), out / "tworoom.png")
    draw_distances(rc.make_task("tworoom"), out / "tworoom-distances.png")
