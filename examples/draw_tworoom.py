"""Draw the pictures of docs/tworoom.md: the layout, logged trajectories, and two distance maps to one goal.

python examples/draw_tworoom.py docs/images
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"]
"""Distinguishable for colour-blind readers."""


def new_figure(panels: int) -> tuple[Figure, list[Axes]]:
    """A row of square panels without ticks."""
    figure = Figure(figsize=(4.6 * panels, 4.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, panels, number + 1) for number in range(panels)]
    for axis in axes:
        axis.set(xticks=[], yticks=[])
    return figure, axes


def draw_fields(axes: list[Axes], fields: Mapping[str, np.ndarray], points: np.ndarray, **style: Any) -> None:
    """Draw fields [H, W] over points [H, W, 2], by title, with contours and the goal."""
    for axis, (title, values) in zip(axes, fields.items(), strict=True):
        colours = mpl.colormaps["cividis"].with_extremes(bad="0.25")
        axis.imshow(values, cmap=colours, norm=style.get("norm"), extent=(21, 204, 204, 21))
        lines = {"levels": style.get("levels", 12), "colors": "white", "linewidths": 0.6, "alpha": 0.7}
        axis.contour(points[..., 0], points[..., 1], values, **lines)
        axis.plot(*GOAL, "*", color="gold", markeredgecolor="black", markersize=16)
        axis.set_title(title)


def draw_world(task: rc.tasks.TwoRoom, path: Path) -> None:
    """Draw a frame of the task, and trajectories of the public policy in one room and across the wall."""
    logs = task.generate_logs(episodes=60, seed=0)
    figure, (left, right) = new_figure(2)
    left.imshow(task.render(np.array([[60.0, 150.0]]))[0])
    left.set_title("a 224 px frame")
    right.imshow(background(task.layout).astype(np.uint8))
    for colour, episode in zip(COLOURS, np.flatnonzero(logs.lengths > 40)[:6], strict=True):
        states = logs.columns["state"][logs.offsets[episode] :][: logs.lengths[episode]]
        right.plot(*states.T, color=colour, linewidth=1.3)
        right.plot(*states[0], "o", color=colour, markeredgecolor="black", markersize=7)
        right.plot(*states[-1], "*", color=colour, markeredgecolor="black", markersize=13)
    right.set_title("six logged trajectories (circle: start, star: end)")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def draw_distances(task: rc.tasks.TwoRoom, path: Path) -> None:
    """Draw the Euclidean and the geodesic distance of every place to one goal."""
    points = np.stack(np.meshgrid(np.arange(21.0, 204), np.arange(21.0, 204)), axis=-1)
    goal = np.broadcast_to(GOAL, points.shape)
    maps = {"Euclidean": task.euclidean(points, goal), "geodesic": task.distance(points, goal)}
    top = max(float(values.max()) for values in maps.values())
    solid, norm = task.layout.solid(points), Normalize(0, top)
    fields = {f"{name} distance to the goal": np.where(solid, np.nan, values) for name, values in maps.items()}
    figure, axes = new_figure(2)
    draw_fields(axes, fields, points, norm=norm, levels=np.arange(20, top, 20))
    figure.colorbar(ScalarMappable(norm, "cividis"), ax=axes, location="bottom", shrink=0.5, label="pixels")
    figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    out.mkdir(parents=True, exist_ok=True)
    draw_world(rc.make_task("tworoom"), out / "tworoom.png")
    draw_distances(rc.make_task("tworoom"), out / "tworoom-distances.png")
