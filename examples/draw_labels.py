"""Draw the pictures of docs/labels.md: logs without the door, trajectories imagined from them, and cost fields.

python examples/draw_labels.py docs/images
"""

import sys
from pathlib import Path

import numpy as np
import torch
from draw_tworoom import GOAL, draw_fields, new_figure
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

import reachcost as rc
from reachcost.labels.oracle import covered_latents
from reachcost.tasks.tworoom.renderer import background

MODEL = "lewm-tworoom-3072"
SHOWN = 4000
"""Number of drawn edges and logged states."""
WALL = 112
BLUE, ORANGE = "#0072B2", "#D55E00"


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
    middle.add_collection(LineCollection(list(through_door[:60]), colors=ORANGE, linewidths=0.8))
    count = round(60 * through_wall.sum() / len(through_door))  # in proportion to the 60 paths through the door
    middle.add_collection(LineCollection(list(paths[through_wall][:count]), colors=BLUE, linewidths=0.8))
    shown = f"{imagined.record['edges']:,} edges between {imagined.record['places']:,} places, some of them"
    draw_rooms(right, task, shown)
    ends = probe(imagined.graph.places).numpy()
    one_edge = np.argwhere(imagined.graph.times == imagined.record["stride"])
    edges = one_edge[rng.choice(len(one_edge), SHOWN, replace=False)]
    right.add_collection(LineCollection(list(ends[edges]), colors=BLUE, linewidths=0.3, alpha=0.5))
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
    """Train heads on logs without the door, and draw."""
    task, model = rc.tasks.TwoRoom(), rc.load_world_model(MODEL)
    full = rc.encode_logs(model, task.generate_logs(10_000, seed=0))
    latents = covered_latents(full.without(task.evaluation_set("high-distance")), "limited", task, None, seed=0)
    imagined = rc.labels.ImaginedPairs(model, latents)
    heads = {
        "logged times, no door in the logs": rc.fit(rc.labels.TemporalPairs(latents, holdout=0.1)),
        "imagined paths, from the same logs": rc.fit(imagined),
    }
    out.mkdir(parents=True, exist_ok=True)
    draw_graph(task, full, latents, imagined, out / "imagined.png")
    draw_costs(task, model, heads, out / "cost-fields.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
