"""Draw docs/images: TwoRoom (layout, trajectories, distances), and paths and costs learned from logs without its door.

python examples/draw_tworoom.py docs/images
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

import reachcost as rc
from reachcost.labels.oracle import covered_latents
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


MODEL = "lewm-tworoom-3072"
SHOWN = 4000
"""Number of drawn edges and logged states."""
WALL = 112


def draw_rooms(axis: Axes, task: rc.tasks.TwoRoom, title: str) -> None:
    """Draw the empty rooms as a background."""
    axis.imshow(background(task.layout).astype(np.uint8), alpha=0.5)
    axis.set(xlim=(10, 214), ylim=(214, 10), title=title)


def draw_graph(
    task: rc.tasks.TwoRoom, full: rc.Latents, latents: rc.Latents, imagined: rc.labels.ImaginedPairs, path: Path
) -> None:
    """Draw logs without the door, trajectories imagined from them, and the edges between imagined places."""
    # The probe is fitted on all logs: the left panel's logs lack places that the imagined trajectories reach.
    probe = rc.data.fit_probe(full.values, task.coordinates(full.logs.columns["state"]))
    rng = np.random.default_rng(0)
    figure, (left, middle, right) = new_figure(3)
    draw_rooms(left, task, "logs that stay 95 px from the door")
    states = latents.logs.columns["state"]
    left.plot(*states[rng.choice(len(states), SHOWN)].T, ".", color="0.35", markersize=1.2)
    draw_rooms(middle, task, "imagined: eight blocks from such states")
    paths = probe(imagined.latents).numpy().reshape(-1, 9, 2)
    across = (paths[:, :-1, 0] < WALL) != (paths[:, 1:, 0] < WALL)
    through_wall = (across & ~task.layout.in_door((paths[:, :-1, 1] + paths[:, 1:, 1]) / 2)).any(1)
    through_door = paths[across.any(1) & ~through_wall]
    middle.add_collection(LineCollection(list(paths[:300]), colors="0.45", linewidths=0.5, alpha=0.6))
    middle.add_collection(LineCollection(list(through_door[:60]), colors=COLOURS[-1], linewidths=0.8))
    count = round(60 * through_wall.sum() / len(through_door))  # in proportion to the 60 paths through the door
    middle.add_collection(LineCollection(list(paths[through_wall][:count]), colors=COLOURS[0], linewidths=0.8))
    shown = f"{imagined.record['edges']:,} edges between {imagined.record['places']:,} places, some of them"
    draw_rooms(right, task, shown)
    ends = probe(imagined.graph.places).numpy()
    one_edge = np.argwhere(imagined.graph.times == imagined.record["stride"])
    edges = one_edge[rng.choice(len(one_edge), SHOWN, replace=False)]
    right.add_collection(LineCollection(list(ends[edges]), colors=COLOURS[0], linewidths=0.3, alpha=0.5))
    figure.savefig(path, dpi=100, metadata={"Software": None})


def draw_costs(
    task: rc.tasks.TwoRoom, model: rc.WorldModel, heads: dict[str, rc.heads.LearnedHead], path: Path
) -> None:
    """Draw the output of each head at every place, and the true distance, for one goal."""
    grid = np.stack(np.meshgrid(np.arange(21.0, 204, 3), np.arange(21.0, 204, 3)), axis=-1)
    points, target = grid.reshape(-1, 2).astype(np.float32), GOAL.astype(np.float32)
    solid = (np.abs(points[:, 0] - WALL) <= task.layout.half) & ~task.layout.in_door(points[:, 1])
    latents, goal = (model.encode(task.observe(states)) for states in (points, target[None]))
    with torch.no_grad():
        values = {name: head(latents, goal).numpy() for name, head in heads.items()}
    values["true distance"] = task.distance(points, np.broadcast_to(target, points.shape))
    fields = {name: np.where(solid, np.nan, value).reshape(grid.shape[:2]) for name, value in values.items()}
    figure, axes = new_figure(len(fields))
    draw_fields(axes, fields, grid)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main(out: Path) -> None:
    """Draw the world, then train heads on logs without the door, and draw these."""
    task, model = rc.tasks.TwoRoom(), rc.load_world_model(MODEL)
    out.mkdir(parents=True, exist_ok=True)
    draw_world(task, out / "tworoom.png")
    draw_distances(task, out / "tworoom-distances.png")
    full = rc.encode_logs(model, task.generate_logs(10_000, seed=0))
    latents = covered_latents(full.without(task.evaluation_set("high-distance")), "limited", task, None, seed=0)
    imagined = rc.labels.ImaginedPairs(model, latents)
    heads = {
        "logged times, no door in the logs": rc.fit(rc.labels.TemporalPairs(latents, holdout=0.1)),
        "imagined paths, from the same logs": rc.fit(imagined),
    }
    draw_graph(task, full, latents, imagined, out / "imagined.png")
    draw_costs(task, model, heads, out / "cost-fields.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
