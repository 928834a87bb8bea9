"""Data flow of the method, the controller and the audit of the paper, with the sizes of TwoRoom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from reachcost.planning.cem import CEM
from reachcost_paper.panels import PanelPlan, Records
from reachcost_paper.tworoom.settings import PAPER_HEAD, POOLS

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


FIGURES = {
    "figure-interfaces": (
        PanelPlan("control: only the cost changes", draw_control, height=3.1),
        PanelPlan("SASC: all rank the same candidates", draw_audit, height=3.1),
    ),
}
