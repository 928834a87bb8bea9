"""Tables as JSON and Markdown files, with the paper's values next to ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from rich import box
from rich.table import Table

from reachcost.core.files import write_file
from reachcost.core.json_files import LARGEST, LONGEST, read_as, read_record
from reachcost.errors import ReachcostError

SIMULATOR = "simulator"  # model of rows that use no world model: lower and upper references
# Heading and digits of metrics; a study adds others.
METRICS = {
    "success": ("success %", 1),
    "rho_geo": ("ρ_geo", 3),
    "rank": ("rank %", 2),
    "steps": ("steps", 1),
    "distance": ("distance", 2),
    "final_geo": ("final geo", 2),
    "rho_logged": ("ρ logged", 4),
    "validation_rmse": ("validation RMSE", 2),
    "rho_euclid": ("ρ_euclid", 3),
    "selected": ("selected", 2),
    "p_value": ("p", 2),
    "spearman": ("Spearman", 3),
}
WIDTH = 80  # columns of a terminal
Bounds = Annotated[Sequence[float], Field(min_length=2, max_length=2)]


@dataclass(frozen=True)
class TableRow:
    """One row of a table."""

    cost: str  # name of the terminal cost
    model: str  # name of the world model
    n: int  # number of episodes
    ours: Mapping[str, float]  # our value by metric
    interval: Mapping[str, Bounds]  # 95 % interval by metric
    paper: Mapping[str, float] | None  # the paper's value by metric; None if the paper has no such row
    seed: int | None = None  # seed of the head or of the world model; None for the mean over seeds
    setting: str = ""  # distinguishes rows of the same cost and model
    extra: Mapping[str, Any] | None = None  # further entries of the JSON object

    def as_json(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return {
            "cost": self.cost,
            "model": self.model,
            "seed": self.seed,
            **({"setting": self.setting} if self.setting else {}),
            "n": self.n,
            "ours": {metric: round(value, 4) for metric, value in self.ours.items()},
            "interval": {metric: [round(bound, 4) for bound in bounds] for metric, bounds in self.interval.items()},
            "paper": None if self.paper is None else dict(self.paper),
            **(self.extra or {}),
        }

    @property
    def label(self) -> str:
        """Name of the cost, with the seed if there is one."""
        return self.cost if self.seed is None else f"{self.cost}, seed {self.seed}"

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of its recorded runs, if they are known."""
        found = (self.extra or {}).get("runs", ())
        return tuple(map(str, found)) if isinstance(found, list | tuple) else ()

    def texts(self, metric: str, digits: int) -> tuple[str, str, str]:
        """Our value, its interval and the paper's value as text; dashes for missing values."""
        bounds, paper = self.interval.get(metric), (self.paper or {}).get(metric)
        return (
            f"{self.ours[metric]:.{digits}f}" if metric in self.ours else "–",
            "" if bounds is None else f"[{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]",
            "–" if paper is None else f"{paper:.{digits}f}",
        )


@dataclass(frozen=True)
class ResultTable:
    """A table with a note that explains its numbers."""

    name: str  # name of the table and its files
    note: str  # what the numbers are and how they were made
    metrics: Sequence[str]  # metrics in the order of the columns
    rows: Sequence[TableRow]
    provenance: Mapping[str, Any]  # further entries of the JSON object, such as sha256 of the recorded rows
    headings: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # heading and digits of further metrics

    def __repr__(self) -> str:
        costs = ", ".join(dict.fromkeys(row.cost for row in self.rows))
        return f"ResultTable({self.name!r}, {len(self.rows)} rows of {costs}; {', '.join(self.metrics)})"

    def heading(self, metric: str) -> tuple[str, int]:
        """Heading and number of decimal places of a metric."""
        return {**METRICS, **self.headings}.get(metric, (metric.replace("_", " "), 2))

    def write(self, out: Path) -> None:
        """Write `out/tables/<name>.json` and `.md`, each in one step."""
        document = {"table": self.name, "rows": [row.as_json() for row in self.rows], **self.provenance}
        write_file(out / "tables" / f"{self.name}.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        write_file(out / "tables" / f"{self.name}.md", self.markdown())

    def columns(self) -> list[tuple[str, str, list[str]]]:
        """Heading, "number" or "", and texts of each column; columns without numbers are left out."""
        columns = [("cost", "", [row.label for row in self.rows])]
        if len({row.model for row in self.rows}) > 1:
            columns.append(("model", "", [row.model for row in self.rows]))
        if any(row.setting for row in self.rows):
            columns.append(("setting", "", [row.setting for row in self.rows]))
        columns.append(("n", "number", [str(row.n) for row in self.rows]))
        for metric in self.metrics:
            heading, digits = self.heading(metric)
            texts = [row.texts(metric, digits) for row in self.rows]
            columns.append((heading, "number", [f"{ours} {interval}".strip() for ours, interval, _ in texts]))
            columns.append(("paper", "number", [paper for *_, paper in texts]))
        return [column for column in columns if not column[1] or {*column[2]} - {"–"}]

    def markdown(self) -> str:
        """The table in Markdown."""
        headings, kinds, texts = zip(*self.columns(), strict=True)
        lines = [headings, ["---:" if kind else "---" for kind in kinds], *zip(*texts, strict=True)]
        body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"# {self.name}\n\n{self.note}\n\n{body}\n"

    def terminal(self, title: str) -> Table:
        """Rows that are means (otherwise all rows) as a rich table, with the columns that fit on a terminal."""
        rows = [row for row in self.rows if row.seed is None] or self.rows
        several = len({row.model for row in rows}) > 1
        seeds = len({row.seed for row in rows}) > 1
        names = [
            " ".join(filter(None, (row.model if several else "", row.label if seeds else row.cost, row.setting)))
            for row in rows
        ]
        columns: list[tuple[str, str, list[str]]] = [("", "", names)]
        for metric in self.metrics:
            heading, digits = self.heading(metric)
            texts = [row.texts(metric, digits) for row in rows]
            columns.append((heading.removesuffix(" %"), "bold", [ours for ours, *_ in texts]))
            if metric == self.metrics[0]:
                spans = [interval.strip("[]").replace(", ", "–") for _, interval, _ in texts]
                columns.append(("95 %", "", spans))
            columns.append(("paper", "dim", [paper for *_, paper in texts]))
        shown = [column for column in columns if {*column[2]} - {"", "–"}]
        widths = np.cumsum([1 + max(map(len, (heading, *texts))) for heading, _, texts in shown])
        shown = [column for column, width in zip(shown, widths, strict=True) if width <= WIDTH]
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=0)
        for number, (heading, style, _) in enumerate(shown):
            table.add_column(heading, style=style, justify="right" if number else "left", no_wrap=True)
        for cells in zip(*(texts for *_, texts in shown), strict=True):
            table.add_row(*cells)
        return table


@dataclass(frozen=True)
class _Document:
    """A table in JSON."""

    table: str
    rows: list[TableRow]
    study: str = ""
    command: str = ""


def read_table(path: Path, headings: Mapping[str, tuple[str, int]] | None = None) -> ResultTable:
    """Read a table from its JSON file, and its note from the Markdown file of the same name."""
    document = read_record(path)
    if not is_table(document):
        raise ReachcostError(f"{path} is not a table: give a file of DIR/tables that ends in .json")
    found = read_as(_Document, document, str(path))
    known = {field.name for field in fields(TableRow)} - {"extra"}
    extras = [{name: value for name, value in row.items() if name not in known} for row in document["rows"]]
    rows = [replace(row, extra=extra) for row, extra in zip(found.rows, extras, strict=True)]
    metrics = dict.fromkeys(metric for row in rows for metric in row.ours)
    provenance = {name: value for name, value in document.items() if name not in ("table", "rows")}
    return ResultTable(found.table, _note(path), tuple(metrics), rows, provenance, headings or {})


def is_table(document: object) -> bool:
    """Whether a JSON value looks like a table."""
    return isinstance(document, dict) and "table" in document and isinstance(document.get("rows"), list)


def _note(path: Path) -> str:
    """Text between heading and rows of the Markdown file next to a JSON file, if there is one."""
    markdown = path.with_suffix(".md")
    if not markdown.is_file() or markdown.stat().st_size > LARGEST:
        return ""
    lines = markdown.read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    return "\n".join(takewhile(lambda line: not line.startswith("|"), lines)).strip()[:LONGEST]
