"""Figures of several panels, each declared by whoever knows what it shows, drawn from records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from reachcost.results.figures.canvas import new_figure, write_pictures
from reachcost.results.figures.styles import INTERVAL
from reachcost.results.published import Records

WIDEST = 9.5
"""Inches of a row of panels; what does not fit goes below."""
DOTS = 150
"""Per inch, of PNGs."""
LAST = (INTERVAL, "paper")
"""What comes at the end of explanations."""
STYLE: dict[Any, Any] = {"font.size": 9, "axes.titlesize": 9.5, "hatch.linewidth": 0.6, "legend.fontsize": 9}


@dataclass(frozen=True)
class PanelPlan:
    """A panel of a figure, declared."""

    title: str
    """What it shows."""
    draw: Callable[[Axes, Records], None]
    """Draws it."""
    tables: tuple[str, ...] = ()
    """Tables that it is drawn from, with their runs."""
    width: float = 4.6
    """Inches, before a row is stretched to its figure."""
    height: float = 3.0
    """Inches."""


def write_figure(name: str, panels: Sequence[PanelPlan], out: Path) -> list[Path]:
    """Draw panels from the records below `out`, and write them as `out/figures/<name>.svg` and `.png`."""
    records = Records(out)
    with mpl.rc_context(STYLE):
        figure = draw_panels(panels, records)
        return write_pictures(figure, out / "figures" / name, DOTS, name, " ".join(records.used))


def draw_panels(panels: Sequence[PanelPlan], records: Records) -> Figure:
    """Panels in rows, lettered if there are several; below them what their marks mean, once for all."""
    rows = _rows(panels)
    heights = [max(panel.height for panel in row) for row in rows]
    figure = new_figure(max(sum(panel.width for panel in row) for row in rows), sum(heights) + 0.4)
    letters = (f"{letter}   " if len(panels) > 1 else "" for letter in ascii_uppercase)
    below = figure.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0].tolist()
    for row, part in zip(rows, below, strict=True):
        grid = part.add_gridspec(1, len(row), width_ratios=[panel.width for panel in row])
        for number, panel, letter in zip(count(), row, letters, strict=False):
            axes = part.add_subplot(grid[0, number])
            panel.draw(axes, records)
            axes.set_title(f"{letter}{panel.title}", loc="left", fontweight="bold")
    _explain(figure, below)
    return figure


def _rows(panels: Sequence[PanelPlan]) -> list[list[PanelPlan]]:
    """Panels that fit side by side."""
    rows: list[list[PanelPlan]] = []
    for panel in panels:
        if rows and sum(one.width for one in rows[-1]) + panel.width <= WIDEST:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _explain(figure: Figure, parts: Sequence[SubFigure]) -> None:
    shared = [axes for part in parts for axes in part.axes if axes.get_legend() is None]
    shown = [axes.get_legend_handles_labels() for axes in shared]
    marks = {name: handle for handles, names in shown for handle, name in zip(handles, names, strict=True)}
    if marks:
        order = [*(name for name in marks if name not in LAST), *(name for name in LAST if name in marks)]
        widest = 0.7 + 0.078 * max(map(len, marks))  # inches of a mark, its name and the gap behind it
        columns = max(1, min(len(marks), int(figure.get_figwidth() / widest)))
        figure.legend(
            [marks[name] for name in order],
            order,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            handlelength=2.8,
        )
