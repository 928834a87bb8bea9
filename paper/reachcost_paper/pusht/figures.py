"""The figures of PushT: starts, goals and pushes, and that better ranking does not imply success."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Polygon

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.runs import outcomes
from reachcost.experiments.study import Setting
from reachcost.results.figures import TITLE_SIZE, new_figure, write_picture
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, WINDOW, corners
from reachcost.tasks.pusht.task import PushT, angle_error
from reachcost_paper.charts import BLUE, Bar, Wanted, bar_of, bar_panel, draw_bars
from reachcost_paper.panels import PanelPlan, Records
from reachcost_paper.pusht.settings import FULL, MEMBER, READINGS, SEEDS, sets
from reachcost_paper.rows import EpisodeRun, visited

COSTS, RANKED = ("raw", "hybrid", "shuffled-hybrid"), ("raw", "task-state", "hybrid", "shuffled-hybrid")
FAR = (50, 75)
"""Goal offsets that the paper prints rankings of."""
ONE_SEED = f"pairs of seed {SEEDS[0]}"
"""The only evaluation seed that the paper has at offset 25, and for final distances at offset 50."""
DASHES = (":", "--", "-")
"""Lines of the states of the recorded episode, from the first to the last."""
FRAMES, GOAL_SHARE = 6, 0.35
"""Number of frames of an episode, from first to last state, and the opacity of the goal in them."""
CONTACT = [Setting(MEMBER, cost, evaluation=sets(50)[0], **READINGS[FULL]) for cost in ("raw", "hybrid")]
SUCCESS, DISTANCE = "success, % of {} pairs", "task distance (n = {})"


def _offsets(costs: tuple[str, ...]) -> dict[str, list[Wanted]]:
    return {f"offset {offset}": [{"cost": cost, "setting": f"offset {offset}"} for cost in costs] for offset in FAR}


def draw_success(axes: Axes, records: Records) -> None:
    """Closed loops by offset, on the pairs that the paper has."""
    places = {offset: (f"pusht-{offset}", ONE_SEED if offset not in FAR else "") for offset in (25, *FAR)}
    draw_bars(axes, _closed_loops(records, places, "success"), "success, %", 105)


def draw_ends(axes: Axes, records: Records) -> None:
    places = {50: ("pusht-final-distance", f"offset 50, {ONE_SEED}, {FULL}"), 75: ("pusht-75", "")}
    draw_bars(axes, _closed_loops(records, places, "distance"), "final task distance, mean")


def _closed_loops(records: Records, places: dict[int, tuple[str, str]], metric: str) -> dict[str, list[Bar]]:
    """Bars of all costs by offset, each from the rows of a table with a setting."""
    groups = {}
    for offset, (table, setting) in places.items():
        rows = [records.row(table, setting=setting, cost=cost) for cost in COSTS]
        groups[f"offset {offset}\nn = {rows[0].n}"] = [bar_of(row, metric) for row in rows]
    return groups


def _draw_state(axes: Axes, state: np.ndarray, label: str, **style: Any) -> None:
    """The T and the disc that pushes it, at a state [7]."""
    axes.add_patch(Polygon(corners(state[2:5]), label=label, **style))
    axes.add_patch(Circle((state[0], state[1]), AGENT_RADIUS, **style))


def _draw_goal(axes: Axes, goal: np.ndarray) -> None:
    _draw_state(axes, goal, "goal of both", facecolor="#f5e6b3", edgecolor="black", linestyle=":", zorder=0.5)
    _draw_state(axes, goal, "", facecolor="none", edgecolor="black", linestyle=":", zorder=3)
    axes.set(aspect="equal", xlabel="x, px", ylabel="y, px")


def draw_pair(axes: Axes, records: Records) -> None:
    states, goal = _episode(records)
    _draw_goal(axes, goal)
    _draw_state(axes, states[0], "T and disc", facecolor=BLUE, edgecolor="black")
    moved, turned = np.linalg.norm(states[0, 2:4] - goal[2:4]), np.degrees(angle_error(states[:1], goal[None])[0])
    axes.set(xlim=(0, WINDOW), ylim=(WINDOW, 0), xticks=range(100, WINDOW, 100), yticks=range(100, WINDOW, 100))
    axes.set_xlabel(f"x, px\nT to be moved {moved:.0f} px and turned {turned:.0f}°")


def draw_pushing(axes: Axes, records: Records) -> None:
    """The recorded episode: the path of the disc, and the T at some steps."""
    states, goal = _episode(records)
    _draw_goal(axes, goal)
    for step, dash in zip(np.linspace(0, len(states) - 1, len(DASHES)).astype(int), DASHES, strict=True):
        _draw_state(axes, states[step], f"step {step}", facecolor="none", edgecolor=BLUE, linestyle=dash, linewidth=2)
    axes.plot(*states[:, :2].T, color="0.4", linewidth=1.2, label="path of the disc")
    axes.set(xlim=(70, 370), ylim=(420, 120))


def _episode(records: Records) -> tuple[np.ndarray, np.ndarray]:
    """The recorded episode of the hybrid until it reaches its goal: states [steps + 1, 7], and the goal [7]."""
    run = records.run("pusht-50", "*/episodes/*-hybrid-*")
    task, table = PushT(), run.table()
    goals = task.evaluation_set(f"offset-50-{SEEDS[0]}")
    states = np.stack([table[f"state_{number}"].to_numpy() for number in range(goals.goals.shape[1])], axis=1)
    goal = goals.goals[goals.episodes == run.manifest["config"]["episode"]]
    return states[: np.argmax(task.success(states, np.repeat(goal, len(states), axis=0))) + 1], goal[0]


def contact_cells(experiment: Experiment) -> list[Cell]:
    """Episodes of the first pair whose block must move, and that the hybrid reaches and latent distance does not."""
    episode = int(experiment.evaluation(CONTACT[0].evaluation).episodes[_contact_row(experiment)])
    return experiment.cells(EpisodeRun(setting, episode) for setting in CONTACT)


def _contact_row(experiment: Experiment) -> int:
    task, goals = experiment.place(CONTACT[0].evaluation)
    raw, hybrid = (outcomes(experiment, setting)["success"] for setting in CONTACT)
    push = task.groups(goals.starts, goals.goals)["block to move"]
    return int(np.argmax((hybrid > raw) & push))


def draw_contact(experiment: Experiment, path: Path) -> None:
    """Draw that pair under both costs as two strips of frames."""
    (task, goals), row = experiment.place(CONTACT[0].evaluation), _contact_row(experiment)
    goal = task.render(goals.goals[row : row + 1])
    strips, steps = {}, np.array([0])
    for setting in CONTACT:
        states = visited(experiment, setting, int(goals.episodes[row]))
        steps = np.linspace(0, len(states) - 1, FRAMES).astype(int)
        frames = (1 - GOAL_SHARE) * task.render(states[steps]) + GOAL_SHARE * goal
        strips[setting.cost] = np.concatenate([frames, goal]).round().astype(np.uint8)
    captions, pair = [*(f"step {step}" for step in steps), "goal"], goals.episodes[row]
    heading = f"PushT, goal offset 50, pair {pair}, the first that only the hybrid reaches; the goal is overlaid"
    figure = new_figure(1.5 * len(captions), 1.65 * len(strips) + 0.6, heading)
    panels = figure.subplots(len(strips), len(captions), squeeze=False)
    for (name, frames), row in zip(strips.items(), panels, strict=True):
        for frame, axes in zip(frames, row, strict=True):
            axes.imshow(frame, interpolation="none")
            axes.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, fontsize=TITLE_SIZE)
    for caption, axes in zip(captions, panels[0], strict=True):
        axes.set_title(caption, fontsize=TITLE_SIZE)
    write_picture(figure, path)


FIGURES = {
    "figure-pusht-boundary": (
        PanelPlan("closed loop", draw_success, tuple(f"pusht-{offset}" for offset in (25, *FAR)), height=3.3),
        bar_panel(
            "SASC: what each cost selects", "pusht-sasc", "selected", DISTANCE, _offsets(RANKED), None, height=3.3
        ),
    ),
    "figure-pusht-diagnostics": (
        bar_panel("one plan: distance", "pusht-selected", "selected", DISTANCE, _offsets(COSTS), None, width=3.1),
        bar_panel("one plan: success", "pusht-selected", "selected_success", SUCCESS, _offsets(COSTS), 20, width=3.1),
        PanelPlan("closed loop: distance", draw_ends, ("pusht-final-distance", "pusht-75"), width=3.1),
    ),
    "figure-task-suite": (PanelPlan("PushT: by contact", draw_pair, ("pusht-50",), width=3.1, height=3.5),),
    "figure-task-execution": (PanelPlan("PushT: pushing", draw_pushing, ("pusht-50",), width=4.2, height=4.0),),
}
