"""Figures without a display, and pictures that are the same bytes every time."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from reachcost.core.atomic import write_file

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


def write_picture(figure: Figure, path: Path) -> None:
    """Write a PNG in one step."""
    picture = BytesIO()
    figure.set_dpi(120)
    _lay_out(figure)
    FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})
    write_file(path, picture.getvalue())


def write_pictures(figure: Figure, path: Path, dpi: int, title: str, sources: str) -> list[Path]:
    """Write a figure as SVG and as PNG, each in one step; the SVG says what it shows and what it was drawn from."""
    _lay_out(figure)  # once for both
    drawing, picture = BytesIO(), BytesIO()
    with mpl.rc_context(SVG):
        metadata = {"Title": title, "Source": sources, "Creator": "reachcost", "Date": None}
        FigureCanvasSVG(figure).print_svg(drawing, metadata=metadata)
    figure.set_dpi(dpi)
    FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})
    paths = [path.with_suffix(".svg"), path.with_suffix(".png")]
    for file, content in zip(paths, (drawing, picture), strict=True):
        write_file(file, content.getvalue())
    return paths


def _lay_out(figure: Figure) -> None:
    """Give everything its place, once and for all: `savefig` would draw the whole figure for that, unseen."""
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine("none")
