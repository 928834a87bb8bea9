"""Pictures of one episode under several costs: the cost of every place, and the executed path; as PNG or GIF."""

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

START, GOAL, END = ("start", "o", "white", 9), ("goal", "*", "gold", 16), ("end", "X", "crimson", 9)
"""Name, marker, colour and size of marks."""
DOTS = 130
"""Pixels per inch."""
STEP, HOLD = 90, 3500
"""Milliseconds of a step, and of the last frame."""
COLOURS, LEVELS = 128, 14
"""Number of colours of a GIF, and of levels of a field, few enough for a small file."""
FOOTER = "○ start, ★ goal; dark: cheap to end there, bright: costly, as the planner sees it"
STYLE: dict[Any, Any] = {"font.size": 10, "axes.titlesize": 12}


def draw_mark(axes: Axes, mark: tuple[str, str, str, float], place: np.ndarray) -> None:
    """Draw a mark at a place [2]."""
    label, marker, colour, size = mark
    style = {"color": colour, "markeredgecolor": "black", "markersize": size, "linestyle": ""}
    axes.plot(*place, marker, **style, label=label, zorder=6)


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
