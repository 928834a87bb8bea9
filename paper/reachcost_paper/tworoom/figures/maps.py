"""The rooms of TwoRoom from above, and an episode in them and in latent space."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from reachcost.tasks.tworoom import TwoRoom
from reachcost.tasks.tworoom.layout import BORDER, CENTRE, SIZE, SUCCESS_DISTANCE, Layout
from reachcost.tasks.tworoom.renderer import BORDER_LINE
from reachcost_paper.charts import BLOCKED, LOOKS, OPEN, draw_route, draw_walls, tidy
from reachcost_paper.episode_figures import END, GOAL, START, draw_mark
from reachcost_paper.panels import PanelPlan, Records
from reachcost_paper.tworoom.trace import COMPONENTS, SETTINGS
from reachcost_paper.tworoom.trace import GOAL as GOAL_ROW

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


FIGURES = {
    "figure-trace": (
        PanelPlan("one episode in the world", draw_trace, ("trace",), width=4.2, height=4.0),
        PanelPlan("the same in latent space, shared PCA", draw_latent_trace, ("trace",), height=4.0),
    ),
    "figure-task-suite": (PanelPlan("TwoRoom: by the door", draw_routes, ("trace",), width=3.1, height=3.5),),
    "figure-task-execution": (PanelPlan("TwoRoom: around the wall", draw_trace, ("trace",), width=4.2, height=4.0),),
}
