"""Figures without a display, and pictures that are the same bytes every time."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reachcost.base.atomic import write_file

TITLE_SIZE = 11
"""Of the title of a panel."""
SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "reachcost"}
"""Text stays text, to be found, read aloud and edited, in the DejaVu Sans that matplotlib brings or what is like it;
names of parts do not change from one time to the next."""


def new_figure(width: float, height: float, heading: str = "") -> Figure:
    """A figure of that many inches, with a line above it if there is a heading."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    if heading:
        figure.suptitle(heading)
    return figure


def lay_out(figure: Figure) -> None:
    """Find where everything goes once, so that no picture of the figure looks for it again."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def write_picture(figure: Figure, path: Path, dpi: int = 120) -> None:
    """Write a PNG in one step."""
    write_file(path, _drawn(figure, "png", dpi=dpi, metadata={"Software": None}))


def write_drawing(figure: Figure, path: Path, title: str, sources: str) -> None:
    """Write an SVG in one step that says, in its metadata, what it shows and what it was drawn from."""
    metadata = {"Title": title, "Source": sources, "Creator": "reachcost", "Date": None}
    with mpl.rc_context(SVG):
        write_file(path, _drawn(figure, "svg", metadata=metadata))


def _drawn(figure: Figure, kind: str, **options: Any) -> bytes:
    picture = BytesIO()
    figure.savefig(picture, format=kind, **options)
    return picture.getvalue()
