"""Boxes and arrows: what passes what on to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

LEARNED, FROZEN, DATA = "#cfe3f2", "#dddddd", "#ffffff"
"""Light enough for black text on them, and told apart in grey by their edges, too."""
KINDS = {LEARNED: ("learned", "-", 2.0), FROZEN: ("frozen", "--", 1.0), DATA: ("data, world", "-", 0.8)}


@dataclass(frozen=True)
class Box:
    """A box around its centre, in the units of its diagram."""

    text: str
    x: float
    y: float
    width: float
    height: float
    kind: str = DATA

    def towards(self, other: Box) -> tuple[tuple[float, float], tuple[float, float]]:
        """Where an arrow leaves this box and enters the other: straight down or up, if they lie above each other."""
        left = max(self.x - self.width / 2, other.x - other.width / 2)
        right = min(self.x + self.width / 2, other.x + other.width / 2)
        if left < right:
            down = 1 if other.y > self.y else -1
            middle = (left + right) / 2
            return (middle, self.y + down * self.height / 2), (middle, other.y - down * other.height / 2)
        across = 1 if other.x > self.x else -1
        return (self.x + across * self.width / 2, self.y), (other.x - across * other.width / 2, other.y)


def draw_diagram(
    axes: Axes, boxes: Mapping[str, Box], arrows: Sequence[tuple[str, str]], size: tuple[float, float]
) -> None:
    """Draw boxes, and arrows from one to another by their names, on a sheet of that width and height."""
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
    axes.set(xlim=(0, size[0]), ylim=(size[1], 0), aspect="equal")
    axes.axis("off")
