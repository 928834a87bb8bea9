"""Figures of panels, which are drawn from published tables and runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BytesIO
from itertools import count
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure, SubFigure

from reachcost.core.files import write_file
from reachcost.errors import ReachcostError
from reachcost.results.figures import INTERVAL, lay_out, new_figure
from reachcost.results.records import Run, read_run
from reachcost.results.tables import ResultTable, TableRow, read_table

LAST = (INTERVAL, "paper")
"""Labels at the end of a legend."""
WIDEST = 9.5
"""Maximum width of a row of panels in inches."""
DOTS = 150
"""Pixels per inch of the PNG of a figure."""
STYLE: dict[Any, Any] = {"font.size": 9, "axes.titlesize": 9.5, "hatch.linewidth": 0.6, "legend.fontsize": 9}
SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "reachcost"}
"""Text stays text, and identifiers are the same every time."""


class Records:
    """Reads tables and their runs below an output directory, and lists what was read."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._used: dict[str, None] = {}
        self._tables: dict[str, ResultTable] = {}

    @property
    def used(self) -> list[str]:
        """Files that were read, relative to the directory and without their suffixes."""
        return [*self._used]

    def rows(self, table: str, **wanted: object) -> list[TableRow]:
        """Rows of a table, or those with certain values, such as `cost="raw", seed=None`."""
        rows = self._table(table).rows
        return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]

    def row(self, table: str, **wanted: object) -> TableRow:
        """The only row of a table with certain values; by default with an empty `setting`."""
        rows = self.rows(table, **{"setting": "", **wanted})
        if len(rows) != 1:
            raise ReachcostError(f"{self._path(table)} has {len(rows)} rows with {wanted}, not one: make it again")
        return rows[0]

    def run(self, table: str, name: str) -> Run:
        """A run of a table by its name, in which `*` stands for any letters; its rows must be unchanged."""
        rows_sha256: dict[str, str] = self._table(table).provenance["rows_sha256"]
        found = [key for key in rows_sha256 if fnmatchcase(key, name)]
        if len(found) != 1:
            raise ReachcostError(f"{self._path(table)} has {len(found)} runs {name}, not one: make it again")
        run = read_run(self.out / "runs" / found[0])
        if run.sha256["rows.parquet"] != rows_sha256[found[0]]:
            raise ReachcostError(f"{self._path(table)} has other rows than {run.path}: make it again")
        self._used[f"runs/{found[0]}"] = None
        return run

    def _path(self, table: str) -> Path:
        return self.out / "tables" / f"{table}.json"

    def _table(self, name: str) -> ResultTable:
        if name not in self._tables:
            self._tables[name] = read_table(self._path(name))
            self._used[f"tables/{name}"] = None
        return self._tables[name]


@dataclass(frozen=True)
class PanelPlan:
    """The declaration of a panel of a figure; sizes are in inches, before a row is stretched to its figure."""

    title: str
    draw: Callable[[Axes, Records], None]
    tables: tuple[str, ...] = ()
    """Tables that it is drawn from, with their runs."""
    width: float = 4.6
    height: float = 3.0


def write_figure(name: str, panels: Sequence[PanelPlan], out: Path) -> list[Path]:
    """Draw panels from the records below `out`, and write them as `out/figures/<name>.svg` and `.png`.

    The metadata of the SVG contain the name of the figure and of the records.
    """
    records, drawing, picture = Records(out), BytesIO(), BytesIO()
    with mpl.rc_context({**STYLE, **SVG}):
        figure = draw_panels(panels, records)
        lay_out(figure)
        metadata = {"Title": name, "Source": " ".join(records.used), "Creator": "reachcost", "Date": None}
        FigureCanvasSVG(figure).print_svg(drawing, metadata=metadata)
        figure.set_dpi(DOTS)
        FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})
    paths = [out / "figures" / f"{name}.svg", out / "figures" / f"{name}.png"]
    for path, content in zip(paths, (drawing, picture), strict=True):
        write_file(path, content.getvalue())
    return paths


def draw_panels(panels: Sequence[PanelPlan], records: Records) -> Figure:
    """Draw panels in rows, with letters if there are several, and one legend below them."""
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
    _add_legend(figure, below)
    return figure


def _rows(panels: Sequence[PanelPlan]) -> list[list[PanelPlan]]:
    """Group panels that fit side by side."""
    rows: list[list[PanelPlan]] = []
    for panel in panels:
        if rows and sum(one.width for one in rows[-1]) + panel.width <= WIDEST:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _add_legend(figure: Figure, parts: Sequence[SubFigure]) -> None:
    shared = [axes for part in parts for axes in part.axes if axes.get_legend() is None]
    shown = [axes.get_legend_handles_labels() for axes in shared]
    marks = {name: handle for handles, names in shown for handle, name in zip(handles, names, strict=True)}
    if marks:
        order = [*(name for name in marks if name not in LAST), *(name for name in LAST if name in marks)]
        widest = 0.7 + 0.078 * max(map(len, marks))  # inches of a mark, its name and a gap
        columns = max(1, min(len(marks), int(figure.get_figwidth() / widest)))
        style: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "handlelength": 2.8}
        figure.legend([marks[name] for name in order], order, ncols=columns, **style)
