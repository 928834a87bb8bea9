"""Draw episodes that only the repaired cost solves: python examples/draw_repair.py docs/images. Takes two minutes.

repair.gif (README) is an episode of `reachcost demo`, toponav.png (docs/toponav.md) one of the published TopoNav runs.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from PIL import Image
from scipy.ndimage import distance_transform_edt

from reachcost.core.files import write_file
from reachcost.core.progress import Progress
from reachcost.costs.maps import CostMap
from reachcost.experiments import demo
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.runs import closed_loop, outcomes
from reachcost.experiments.study import Member, Setting
from reachcost.results.records import exclusive
from reachcost.tasks.toponav.task import SIZE
from reachcost.tasks.tworoom.layout import BORDER, SUCCESS_DISTANCE
from reachcost.tasks.tworoom.layout import SIZE as PIXELS
from reachcost_paper.charts import GOAL, START, draw_mark
from reachcost_paper.toponav import STUDY
from reachcost_paper.toponav.recipes import KIND

TITLES = {"raw": "raw latent distance (squared latent difference)", "trm": "TRM, learned from logs (predicted steps)"}
DOTS = 130
"""Pixels per inch."""
STEP, HOLD = 90, 3500
"""Milliseconds of a step, and of the last frame."""
COLOURS, LEVELS = 128, 14
"""Number of colours of a GIF, and of levels of a field, few enough for a small file."""
FOOTER = "○ start, ★ goal; dark: cheap to end there, bright: costly, as the planner sees it"
STYLE: dict[Any, Any] = {"font.size": 10, "axes.titlesize": 12}


@dataclass(frozen=True)
class Panel:
    """The episode under one cost."""

    title: str
    """Name and unit of the cost."""
    outcome: str
    """Outcome of the episode in words."""
    field: np.ndarray
    """Cost of ending at places on a regular grid [rows, columns]; NaN in walls."""
    path: np.ndarray
    """Visited places [steps + 1, 2], as (x, y)."""
    reached: bool
    within: float = 0.0
    """Distance to the goal that counts as success."""


def draw_replay(
    goal: np.ndarray, panels: Sequence[Panel], extent: tuple[float, float], path: Path, heading: str
) -> None:
    """Write a GIF of all steps, or a PNG of the last one, with one panel per cost side by side.

    `extent` is the lower and upper edge of the fields, the same for x and y; y grows downwards.
    """
    last, frames = max(len(panel.path) for panel in panels) - 1, []
    for step in range(last if path.suffix == ".png" else 0, last + 1):
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(4.5 * len(panels), 5.6), dpi=DOTS)
            canvas = FigureCanvasAgg(figure)
            figure.subplots_adjust(left=0.01, right=0.99, top=0.9, bottom=0.115, wspace=0.03)
            figure.text(0.5, 0.966, heading, ha="center")
            figure.text(0.5, 0.014, FOOTER, ha="center")
            for number, panel in enumerate(panels, start=1):
                _draw_panel(figure.add_subplot(1, len(panels), number), goal, panel, extent, step)
            canvas.draw()
            frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
    write_file(path, _encoded(frames))


def _draw_panel(axes: Axes, goal: np.ndarray, panel: Panel, extent: tuple[float, float], step: int) -> None:
    """Draw the field, the marks, and the path up to a step."""
    (low, high), ended, visited = extent, step >= len(panel.path) - 1, panel.path[: step + 1]
    _draw_field(axes, panel.field, low, high)
    draw_mark(axes, START, panel.path[0])
    draw_mark(axes, GOAL, goal)
    axes.add_patch(Circle(tuple(goal), panel.within, fill=False, edgecolor="white", linestyle=":", linewidth=1.5))
    axes.set_title(panel.title)
    axes.set(xticks=[], yticks=[], xlim=(low, high), ylim=(high, low), aspect="equal")
    for colour, width in (("white", 4.5), ("crimson", 2.5)):
        axes.plot(*visited.T, color=colour, linewidth=width, solid_capstyle="round", zorder=4)
    marker = "o" if panel.reached or not ended else "X"
    axes.plot(*visited[-1], marker, color="crimson", markeredgecolor="white", markersize=13, zorder=7)
    text: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 13, "fontweight": "bold" if ended else "normal"}
    axes.text(0.5, -0.02, panel.outcome if ended else f"step {step}", transform=axes.transAxes, **text)


def _draw_field(axes: Axes, field: np.ndarray, low: float, high: float) -> None:
    """Draw a field in few flat colours, which keep the file small, and walls with straight edges."""
    blocked = np.isnan(field)
    nearest = np.asarray(distance_transform_edt(blocked, return_distances=False, return_indices=True))
    filled = np.pad(field[tuple(nearest)], 1, mode="edge")
    cell = (high - low) / len(field)
    centres = low + cell * (np.arange(len(filled)) - 0.5)
    axes.contourf(centres, centres, filled, LEVELS, cmap="cividis", antialiased=False)
    walls = np.where(blocked, 1.0, np.nan)
    axes.imshow(walls, cmap=ListedColormap(["0.25"]), extent=(low, high, high, low), zorder=1.5)


def _encoded(frames: Sequence[Image.Image]) -> bytes:
    """A PNG of a single frame, or a GIF that repeats, in the colours of the last frame, which shows everything."""
    picture = BytesIO()
    if len(frames) == 1:
        frames[0].save(picture, "PNG")
        return picture.getvalue()
    palette = frames[-1].quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [STEP] * (len(frames) - 1) + [HOLD]
    first.save(picture, "GIF", save_all=True, append_images=others, duration=times, loop=0)
    return picture.getvalue()


def draw_repaired_episode(
    experiment: Experiment, member: Member, path: Path, extent: tuple[float, float], within: float = 0.0
) -> None:
    """Draw raw and TRM side by side for the longest path that only TRM solves."""
    settings = {name: Setting(member, name) for name in TITLES}
    raw, trm = (outcomes(experiment, setting)["success"] == 100 for setting in settings.values())
    task, goals, model = experiment.task, experiment.evaluation(), experiment.model(member.model)
    lengths = task.distance(goals.starts, goals.goals)
    assert (trm & ~raw).any(), "no episode was repaired"
    row = int(np.argmax(np.where(trm & ~raw, lengths, -1)))
    episode = goals.subset(slice(row, row + 1))
    # Random streams belong to the episode, so it runs here exactly as it did among all others.
    runs = [closed_loop(experiment, setting, episode) for setting in settings.values()]
    cells, panels = CostMap(task, model), []
    for (name, setting), run in zip(settings.items(), runs, strict=True):
        field = cells.field(experiment.cost(setting), episode.goals)[0]
        steps, reached, left = int(run.steps[0, 0]), bool(run.success[0, 0]), run.final_distance[0, 0]
        end = (
            f"reached the goal in {steps} steps"
            if reached
            else f"{left:.0f} {task.distance_unit} left after {steps} steps"
        )
        panels.append(Panel(TITLES[name], end, field, run.paths[0, 0, : steps + 1], reached, within))
    heading = (
        f"Episode {episode.episodes[0]} of {task.name}, shortest path {lengths[row]:.0f} {task.distance_unit}: same "
        "world model, planner and random numbers, two terminal costs"
    )
    draw_replay(episode.goals[0], panels, extent, path, heading)


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    for _, experiment in demo.run_demo(Path("reachcost-demo"), Progress(), episodes=100, log_episodes=3000):
        assert isinstance(experiment, Experiment)
        extent = (BORDER, PIXELS - BORDER)
        draw_repaired_episode(experiment, demo.MEMBER, out / "repair.gif", extent, SUCCESS_DISTANCE)
    with exclusive(Path("results")):
        member = STUDY.members_of(KIND)[0]
        draw_repaired_episode(Experiment(STUDY, Path("results")), member, out / "toponav.png", (-0.5, SIZE - 0.5))
