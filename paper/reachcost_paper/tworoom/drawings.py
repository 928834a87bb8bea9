"""Drawings of TwoRoom: data flow of method, controller and audit; the rooms, and an episode in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from reachcost.planning.cem import CEM
from reachcost.tasks.tworoom import TwoRoom
from reachcost.tasks.tworoom.layout import BORDER, CENTRE, SIZE, SUCCESS_DISTANCE, Layout
from reachcost.tasks.tworoom.renderer import BORDER_LINE
from reachcost_paper.charts import BLOCKED, END, GOAL, LOOKS, OPEN, START, draw_mark, draw_route, draw_walls, tidy
from reachcost_paper.panels import Records
from reachcost_paper.tworoom.settings import PAPER_HEAD, POOLS
from reachcost_paper.tworoom.trace import COMPONENTS, SETTINGS
from reachcost_paper.tworoom.trace import GOAL as GOAL_ROW

SEARCH = CEM()
SHEET = (9.8, 5.4)
"""Width and height of a diagram, in its units."""
LEARNED, FROZEN, DATA = "#cfe3f2", "#dddddd", "#ffffff"
"""Light enough for black text; their edges also differ in grey."""
KINDS = {LEARNED: ("learned", "-", 2.0), FROZEN: ("frozen", "--", 1.0), DATA: ("data, world", "-", 0.8)}


@dataclass(frozen=True)
class Box:
    """A box, by its centre and size in the units of the diagram."""

    text: str
    x: float
    y: float
    width: float
    height: float
    kind: str = DATA

    def towards(self, other: Self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Start and end of an arrow to the other box: vertical if one box is above the other."""
        left = max(self.x - self.width / 2, other.x - other.width / 2)
        right = min(self.x + self.width / 2, other.x + other.width / 2)
        if left < right:
            down = 1 if other.y > self.y else -1
            middle = (left + right) / 2
            return (middle, self.y + down * self.height / 2), (middle, other.y - down * other.height / 2)
        across = 1 if other.x > self.x else -1
        return (self.x + across * self.width / 2, self.y), (other.x - across * other.width / 2, other.y)


def draw_diagram(axes: Axes, boxes: Mapping[str, Box], arrows: Sequence[tuple[str, str]]) -> None:
    """Draw boxes, and arrows between boxes by their names."""
    for box in boxes.values():
        corner = box.x - box.width / 2, box.y - box.height / 2
        name, dash, line = KINDS[box.kind]
        shape = FancyBboxPatch(corner, box.width, box.height, boxstyle="round,pad=0,rounding_size=0.12")
        shape.set(facecolor=box.kind, edgecolor="black", linestyle=dash, linewidth=line, label=name)
        axes.add_patch(shape)
        axes.text(box.x, box.y, box.text, ha="center", va="center", fontsize=8.5, linespacing=1.25)
    for start, end in arrows:
        ends = boxes[start].towards(boxes[end])
        axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=11, color="black", shrinkA=1, shrinkB=1))
    axes.set(xlim=(0, SHEET[0]), ylim=(SHEET[1], 0), aspect="equal")
    axes.axis("off")


def draw_method(axes: Axes, records: Records) -> None:
    boxes = {
        "logs": Box("logged\nepisodes", 1.2, 0.7, 1.9, 1.1),
        "pairs": Box(f"{PAPER_HEAD.pairs:,} pairs of one\nepisode, label: steps\nbetween them", 4.3, 0.7, 3.1, 1.3),
        "head": Box("head m(z, g)\npredicts the steps", 8.1, 0.7, 3.1, 1.1, LEARNED),
        "candidates": Box("candidate\nactions", 1.2, 2.9, 1.9, 1.1, FROZEN),
        "model": Box("world model predicts\nwhere they end: z", 4.3, 2.9, 3.1, 1.1, FROZEN),
        "cost": Box("terminal cost m(z, g)\nranks candidates", 8.1, 2.9, 3.1, 1.1, LEARNED),
        "goal": Box("encoded goal: g", 8.1, 4.8, 3.1, 0.9, FROZEN),
    }
    arrows = [("logs", "pairs"), ("pairs", "head"), ("candidates", "model"), ("model", "cost"), ("head", "cost")]
    draw_diagram(axes, boxes, [*arrows, ("goal", "cost")])


def draw_control(axes: Axes, records: Records) -> None:
    search = (
        f"CEM: {SEARCH.candidates} candidates, {SEARCH.iterations} rounds,\n{SEARCH.elites} elites, executes their mean"
    )
    boxes = {
        "pairs": Box("logged\npairs", 5.9, 0.7, 2.1, 1.0),
        "head": Box("head", 8.6, 0.7, 2.1, 1.0, LEARNED),
        "frames": Box("frame,\ngoal frame", 1.1, 2.7, 1.8, 1.0),
        "encoder": Box("encoder", 3.5, 2.7, 1.7, 1.0, FROZEN),
        "model": Box(f"latent rollout,\n{SEARCH.horizon} blocks", 5.9, 2.7, 2.1, 1.0, FROZEN),
        "cost": Box("terminal cost", 8.6, 2.7, 2.1, 1.0, LEARNED),
        "world": Box("world", 1.1, 4.7, 1.8, 1.0),
        "search": Box(search, 7.1, 4.7, 5.1, 1.0, FROZEN),
    }
    arrows = [("pairs", "head"), ("head", "cost"), ("frames", "encoder"), ("encoder", "model"), ("model", "cost")]
    arrows += [("cost", "search"), ("search", "model"), ("search", "world"), ("world", "frames")]
    draw_diagram(axes, boxes, arrows)


def draw_audit(axes: Axes, records: Records) -> None:
    boxes = {
        "pool": Box(f"one pool of {POOLS.candidates}\ncandidates\nan episode", 1.5, 1.4, 2.6, 1.3, FROZEN),
        "model": Box("latent\nrollout", 4.7, 1.4, 1.9, 1.3, FROZEN),
        "cost": Box("every terminal\ncost scores\nthe same ends", 8.2, 1.4, 2.6, 1.3, LEARNED),
        "world": Box("simulator\nexecutes each", 1.5, 4.0, 2.6, 1.1),
        "compare": Box(
            "rank correlation, rank of the truly\nbest one, distance of the selected one", 6.6, 4.0, 5.8, 1.1
        ),
    }
    arrows = [("pool", "model"), ("pool", "world"), ("model", "cost"), ("world", "compare"), ("cost", "compare")]
    draw_diagram(axes, boxes, arrows)


TRACED = tuple(setting.cost for setting in SETTINGS)


def draw_rooms(axes: Axes) -> None:
    """The public layout, in pixels of its frames."""
    layout = Layout()
    edges = [BORDER, *(end for opening in layout.openings for end in opening), SIZE - BORDER]
    walls = [
        (CENTRE - layout.half, low, 2 * layout.half, high - low)
        for low, high in zip(edges[::2], edges[1::2], strict=True)
    ]
    low, high = BORDER - BORDER_LINE, SIZE - BORDER
    long = high + BORDER_LINE - low
    frame = [(low, edge, long, BORDER_LINE) for edge in (low, high)]
    frame += [(edge, low, BORDER_LINE, long) for edge in (low, high)]
    draw_walls(axes, [*walls, *frame], low, low + long)
    axes.set(xlabel="x, px", ylabel="y, px", xticks=range(50, SIZE, 50), yticks=range(50, SIZE, 50))


def _traced(records: Records, *columns: str) -> dict[str, np.ndarray]:
    """Columns of the recorded trace by cost, and of its goal [states, columns]."""
    table = records.run("trace", "*/traces/*").table()
    costs, values = np.array(table["cost"].to_pylist()), np.stack([table[name].to_numpy() for name in columns], axis=1)
    return {cost: values[costs == cost] for cost in (*TRACED, GOAL_ROW)}


def _draw_traced(axes: Axes, paths: dict[str, np.ndarray]) -> None:
    raw, goal = paths[TRACED[0]], paths[GOAL_ROW][0]
    for cost in TRACED:
        draw_route(axes, paths[cost], LOOKS[cost])
    for mark, place in ((START, raw[0]), (GOAL, goal), (END, raw[-1])):
        draw_mark(axes, mark, place)


def draw_trace(axes: Axes, records: Records) -> None:
    paths = _traced(records, "x", "y")
    near = Circle(paths[GOAL_ROW][0], SUCCESS_DISTANCE, fill=False, linestyle=":")
    near.set_label(f"success, {SUCCESS_DISTANCE:.0f} px")
    axes.add_patch(near)
    _draw_traced(axes, paths)
    draw_rooms(axes)


def draw_latent_trace(axes: Axes, records: Records) -> None:
    """The same episode in the two principal components that its latents share."""
    _draw_traced(axes, _traced(records, *COMPONENTS))
    shares = records.row("trace", cost="all states").ours
    names = [f"component {number}, {shares[name]:.0f} % of variance" for number, name in enumerate(COMPONENTS, 1)]
    axes.set(xlabel=names[0], ylabel=names[1])
    axes.grid(color="0.9")
    tidy(axes)


def draw_routes(axes: Axes, records: Records) -> None:
    """Start and goal of the same episode: the straight line, and a route through the door."""
    task, places = TwoRoom(), _traced(records, "x", "y")
    start, goal = places[TRACED[0]][0], places[GOAL_ROW][0]
    (_, sill), *_ = task.layout.openings
    side = np.sign(start[0] - CENTRE) * (task.layout.half + task.layout.radius)
    door = [(CENTRE + side, sill - task.layout.radius), (CENTRE - side, sill - task.layout.radius)]
    straight, route = (distance(start[None], goal[None])[0] for distance in (task.euclidean, task.distance))
    draw_rooms(axes)
    draw_route(axes, np.stack([start, goal]), BLOCKED)
    draw_route(axes, np.stack([start, *door, goal]), OPEN)
    for mark, place in ((START, start), (GOAL, goal)):
        draw_mark(axes, mark, place)
    axes.set_xlabel(f"x, px\nstraight {straight:.0f} px, by the door {route:.0f} px")
