"""Where the repair ends on TwoRoom: logs without the door, and layouts that nothing was trained in."""

from __future__ import annotations

from reachcost_paper.figures.bars import Wanted, bar_panel
from reachcost_paper.tworoom.figures.control import RANK, SUCCESS

COVERED: dict[str, list[Wanted]] = {
    name: [{"cost": "geodesic-mlp", "setting": setting}]
    for setting, name in {
        "limited": "none near\nthe door",
        "balanced": "half near\nthe door",
        "mixed": "half across\nthe wall",
        "random": "random",
    }.items()
}
MOVED: dict[str, list[Wanted]] = {
    name: [{"cost": cost, "setting": setting} for cost in ("raw", "geodesic-mlp", "hybrid", "trm")]
    for setting, name in {
        "door 88": "door moved\nto 88 px",
        "door 150": "door moved\nto 150 px",
        "horizontal 88": "wall\nturned",
    }.items()
}
FIGURES = {
    "figure-coverage-layout": (
        bar_panel("states of training pairs: success", "coverage", "success", SUCCESS, COVERED),
        bar_panel("states of training pairs: ranking", "coverage", "rank", RANK, COVERED, None, digits=2),
        bar_panel("changed layouts: success", "layout", "success", SUCCESS, MOVED),
        bar_panel("changed layouts: ranking", "layout", "rank", RANK, MOVED),
    )
}
