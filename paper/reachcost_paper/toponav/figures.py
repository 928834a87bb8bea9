"""The figures of the paper about TopoNav: its grid, and its part of the evidence."""

import numpy as np
from matplotlib.axes import Axes

from reachcost.tasks.toponav.task import SIZE, TopoNav
from reachcost_paper.charts import BLOCKED, GOAL, OPEN, START, bar_panel, draw_mark, draw_route, draw_walls
from reachcost_paper.panels import PanelPlan, Records

COSTS = {"raw": "raw", "trm-paper": "TRM,\npaper's", "trm": "TRM,\nours", "shuffled": "shuffled\nlabels"}


def draw_grid(axes: Axes, records: Records) -> None:
    """The pair of the evaluation set with the largest ratio of shortest route to straight line."""
    task = TopoNav()
    goals = task.evaluation_set()
    far, straight = task.distance(goals.starts, goals.goals), np.linalg.norm(goals.goals - goals.starts, axis=1)
    row = slice(at := int(np.argmax(far / straight)), at + 1)
    route = [goals.starts[row]]
    for action in task.routes(goals.starts[row], goals.goals[row], int(far[at])).T:
        route.append(task.step(route[-1], action))
    draw_walls(axes, [(x - 0.5, y - 0.5, 1, 1) for x, y in np.argwhere(~task.free)], -0.5, SIZE - 0.5)
    ends = np.concatenate([goals.starts[row], goals.goals[row]])
    draw_route(axes, ends, BLOCKED)
    draw_route(axes, np.concatenate(route), OPEN)
    for mark, place in zip((START, GOAL), ends, strict=True):
        draw_mark(axes, mark, place)
    text = f"x, cells\nstraight {straight[at]:.0f} cells, route {far[at]} steps"
    axes.set(xlabel=text, ylabel="y, cells", xticks=range(0, SIZE, 7), yticks=range(0, SIZE, 7))


FIGURES = {
    "figure-task-suite": (PanelPlan("TopoNav: graph distances", draw_grid, width=3.1, height=3.5),),
    "figure-evidence": (
        bar_panel(
            "TopoNav",
            "toponav",
            "success",
            "success, % of {} episodes",
            {name: [{"cost": cost, "seed": None}] for cost, name in COSTS.items()},
            width=3.1,
        ),
    ),
}
