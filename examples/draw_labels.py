"""Draw the pictures of docs/labels.md: logs without the door, what the model imagines from them, and cost fields.

python examples/draw_labels.py docs/images
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from draw_tworoom import new_figure
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

import reachcost as rc
from reachcost.labels.coverage import covered_latents
from reachcost.tasks.tworoom.renderer import background

MODEL = "lewm-tworoom-3072"
GOAL = np.array([165.0, 165.0], np.float32)
SHOWN = 4000
"""Edges and stretches that are drawn."""
WALL = 112
BLUE, ORANGE = "#0072B2", "#D55E00"


def rooms(axis: Axes, task: rc.tasks.TwoRoom, title: str) -> None:
    """The empty rooms below what is drawn."""
    axis.imshow(background(task.layout).astype(np.uint8), alpha=0.5)
    axis.set(xlim=(10, 214), ylim=(214, 10), title=title)


def draw_graph(
    task: rc.tasks.TwoRoom, whole: rc.Latents, latents: rc.Latents, imagined: rc.labels.ImaginedPairs, path: Path
) -> None:
    """Logs that leave the door out, trajectories imagined from them, and the edges between imagined places."""
    # Fitted on all logs, to be drawn with: one of the left panel's logs alone does not read the places that they lack.
    probe = rc.data.fit_probe(whole.values, task.coordinates(whole.logs.columns["state"]))
    rng = np.random.default_rng(0)
    figure, (left, middle, right) = new_figure(3)
    rooms(left, task, "logs that stay 95 px from the door")
    states = latents.logs.columns["state"]
    left.plot(*states[rng.choice(len(states), SHOWN)].T, ".", color="0.35", markersize=1.2)
    rooms(middle, task, "imagined: eight blocks from such states")
    ways = probe(imagined.latents).numpy().reshape(-1, 9, 2)
    across = (ways[:, :-1, 0] < WALL) != (ways[:, 1:, 0] < WALL)
    slips = (across & ~task.layout.in_door((ways[:, :-1, 1] + ways[:, 1:, 1]) / 2)).any(1)
    through = ways[across.any(1) & ~slips]
    middle.add_collection(LineCollection(list(ways[:300]), colors="0.45", linewidths=0.5, alpha=0.6))
    middle.add_collection(LineCollection(list(through[:60]), colors=ORANGE, linewidths=0.8))
    beside = round(60 * slips.sum() / len(through))  # as many as there are for so many through the door
    middle.add_collection(LineCollection(list(ways[slips][:beside]), colors=BLUE, linewidths=0.8))
    rooms(right, task, f"{imagined.record['edges']:,} edges between {imagined.record['places']:,} places, some of them")
    ends = probe(imagined.graph.places).numpy()
    one_edge = np.argwhere(imagined.graph.times == imagined.record["stride"])
    edges = one_edge[rng.choice(len(one_edge), SHOWN, replace=False)]
    right.add_collection(LineCollection(list(ends[edges]), colors=BLUE, linewidths=0.3, alpha=0.5))
    figure.savefig(path, dpi=100, metadata={"Software": None})


def draw_costs(
    task: rc.tasks.TwoRoom, model: rc.WorldModel, heads: dict[str, rc.heads.LearnedHead], path: Path
) -> None:
    """What each head says of every place, and the truth, for one goal."""
    x, y = np.meshgrid(np.arange(21.0, 204, 3), np.arange(21.0, 204, 3))
    points = np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float32)
    solid = (np.abs(points[:, 0] - 112) <= task.layout.half) & ~task.layout.in_door(points[:, 1])
    latents, goal = (model.encode(task.observe(states)) for states in (points, GOAL[None]))
    with torch.no_grad():
        fields = {name: head(latents, goal).numpy() for name, head in heads.items()}
    fields["true distance"] = task.distance(points, np.broadcast_to(GOAL, points.shape))
    figure, axes = new_figure(len(fields))
    for axis, (name, values) in zip(axes, fields.items(), strict=True):
        shown = np.where(solid, np.nan, values).reshape(x.shape)
        colours = mpl.colormaps["cividis"].with_extremes(bad="0.25")
        axis.imshow(shown, cmap=colours, extent=(21, 204, 204, 21))
        axis.contour(x, y, shown, levels=12, colors="white", linewidths=0.6, alpha=0.7)
        axis.plot(*GOAL, "*", color="gold", markeredgecolor="black", markersize=16)
        axis.set_title(name)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main(out: Path) -> None:
    """Train heads on logs without the door, and draw."""
    task, model = rc.tasks.TwoRoom(), rc.load_world_model(MODEL)
    whole = rc.encode_logs(model, task.generate_logs(10_000, seed=0))
    latents = covered_latents(whole, "limited", task, None, task.evaluation_set("high-distance"), seed=0)
    imagined = rc.labels.ImaginedPairs(model, latents)
    heads = {
        "logged times, no door in the logs": rc.fit(rc.labels.TemporalPairs(latents, holdout=0.1)),
        "imagined ways, from the same logs": rc.fit(imagined),
    }
    out.mkdir(parents=True, exist_ok=True)
    draw_graph(task, whole, latents, imagined, out / "imagined.png")
    draw_costs(task, model, heads, out / "cost-fields.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
