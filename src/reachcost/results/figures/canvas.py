"""Figures without a display, and pictures that are the same bytes every time."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reachcost.base.atomic import write_file

TITLE_SIZE = 11
"""Of the title of a panel."""


def new_figure(width: float, height: float, heading: str) -> Figure:
    """A figure of that many inches with a line above it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(heading)
    return figure


def write_picture(figure: Figure, path: Path) -> None:
    """Write a PNG in one step."""
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    write_file(path, picture.getvalue())
