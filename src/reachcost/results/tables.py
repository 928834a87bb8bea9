"""Tables as files: one JSON object and the same table in Markdown, with the paper's value beside ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from reachcost.base.atomic import write_file

METRICS = {
    "success": ("success %", 1),
    "same": ("same room %", 1),
    "cross": ("cross wall %", 1),
    "wrong_room": ("wrong room %", 1),
    "stuck": ("stuck %", 1),
    "rho_geo": ("ρ_geo", 3),
    "rank": ("rank %", 2),
    "distance": ("distance px", 2),
    "final_geo": ("final geo", 2),
    "rho_logged": ("ρ logged", 4),
    "validation_rmse": ("validation RMSE", 2),
    "rows": ("rows", 0),
    "row_overlap": ("row overlap", 0),
    "episode_overlap": ("episode overlap", 0),
    "rho_euclid": ("ρ_euclid", 3),
    "selected": ("selected px", 2),
    "p_value": ("p", 2),
    "rmse": ("RMSE px", 3),
    "r2": ("R²", 5),
    "mse_share": ("MSE share %", 2),
    "gradient_share": ("gradient share %", 2),
    "swap_steps": ("swap steps", 2),
    "swap_percent": ("swap %", 1),
    "pairs": ("pairs %", 1),
    "pearson": ("Pearson", 3),
    "spearman": ("Spearman", 3),
    "agreement": ("agreement", 3),
    "cross_pairs": ("cross-wall pairs %", 1),
    "near_pairs": ("near-door pairs %", 1),
    "geo_120_140": ("120-140 px", 1),
    "geo_140_160": ("140-160 px", 1),
    "geo_160_180": ("160-180 px", 1),
    "geo_180_205": ("180-205 px", 1),
}
"""Heading and digits of every metric."""
WIDTH = 80
"""Columns of a terminal."""


@dataclass(frozen=True)
class TableRow:
    """One line of a table.

    Attributes:
        cost: Name of the terminal cost.
        model: Name of the world model.
        n: Episodes behind the numbers.
        ours: Our value by metric.
        interval: 95 % interval by metric.
        paper: The paper's value by metric; None for rows of our own.
        seed: Head seed, or that of the world model; None for the mean over seeds.
        setting: What sets the line apart from others of the same cost and model, if anything.
        extra: Further entries of the JSON object.
    """

    cost: str
    model: str
    n: int
    ours: Mapping[str, float]
    interval: Mapping[str, Sequence[float]]
    paper: Mapping[str, float] | None
    seed: int | None = None
    setting: str = ""
    extra: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the row as the documented JSON object."""
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
        """Name of the cost, with the seed if the row is of one seed."""
        return self.cost if self.seed is None else f"{self.cost}, seed {self.seed}"

    def ours_text(self, metric: str) -> str:
        """Our value as text; a dash where the metric does not apply."""
        return f"{self.ours[metric]:.{METRICS[metric][1]}f}" if metric in self.ours else "–"

    def interval_text(self, metric: str) -> str:
        """The interval as text, or nothing."""
        if metric not in self.interval:
            return ""
        low, high = self.interval[metric]
        return f"[{low:.{METRICS[metric][1]}f}, {high:.{METRICS[metric][1]}f}]"

    def paper_text(self, metric: str) -> str:
        """The paper's value as text; a dash where it gives none."""
        value = (self.paper or {}).get(metric)
        return "–" if value is None else f"{value:.{METRICS[metric][1]}f}"


@dataclass(frozen=True)
class ResultTable:
    """A table with everything a reader needs to trust it.

    Attributes:
        name: Name of the table and its files.
        note: What the numbers are and how they were made.
        metrics: Metrics in the order of the columns.
        rows: The lines.
        provenance: Further entries of the JSON object, such as sha256 of the rows behind the table.
    """

    name: str
    note: str
    metrics: Sequence[str]
    rows: Sequence[TableRow]
    provenance: Mapping[str, Any]

    def write(self, out: Path) -> None:
        """Write `out/tables/<name>.json` and `.md`, each in one step."""
        document = {"table": self.name, "rows": [row.as_json() for row in self.rows], **self.provenance}
        write_file(out / "tables" / f"{self.name}.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        write_file(out / "tables" / f"{self.name}.md", self.markdown())

    def markdown(self) -> str:
        """The table in Markdown; columns that no line fills are left out."""
        several = len({row.model for row in self.rows}) > 1
        detailed = any(row.setting for row in self.rows)
        heading = ["cost", *["model"] * several, *["setting"] * detailed, "n"]
        heading += [text for metric in self.metrics for text in (METRICS[metric][0], "paper")]
        texts = 1 + several + detailed
        lines = [heading, [*["---"] * texts, *["---:"] * (len(heading) - texts)]]
        for row in self.rows:
            values = [
                text
                for metric in self.metrics
                for text in (
                    f"{row.ours_text(metric)} {row.interval_text(metric)}".strip(),
                    row.paper_text(metric),
                )
            ]
            lines.append([row.label, *[row.model] * several, *[row.setting] * detailed, str(row.n), *values])
        filled = [any(row[column] != "–" for row in lines[2:]) for column in range(len(heading))]
        body = "\n".join(f"| {' | '.join(compress(cells, filled))} |" for cells in lines)
        return f"# {self.name}\n\n{self.note}\n\n{body}\n"

    def terminal(self, title: str) -> Table:
        """The means (or, of a single seed, its rows) as a rich table, with the columns a terminal has room for."""
        rows = [row for row in self.rows if row.seed is None] or self.rows
        several = len({row.model for row in rows}) > 1
        seeds = len({row.seed for row in rows}) > 1
        names = [
            " ".join(filter(None, (row.model if several else "", row.label if seeds else row.cost, row.setting)))
            for row in rows
        ]
        columns: list[tuple[str, str, list[str]]] = [("", "", names)]
        for metric in self.metrics:
            columns.append((METRICS[metric][0].removesuffix(" %"), "bold", [row.ours_text(metric) for row in rows]))
            if metric == self.metrics[0]:
                columns.append(("95 %", "", [row.interval_text(metric).strip("[]").replace(", ", "–") for row in rows]))
            columns.append(("paper", "dim", [row.paper_text(metric) for row in rows]))
        shown = [column for column in columns if set(column[2]) - {"", "–"}]
        widths = np.cumsum([1 + max(map(len, (heading, *texts))) for heading, _, texts in shown])
        shown = [column for column, width in zip(shown, widths, strict=True) if width <= WIDTH]
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=0)
        for number, (heading, style, _) in enumerate(shown):
            table.add_column(heading, style=style, justify="right" if number else "left", no_wrap=True)
        for cells in zip(*(texts for _, _, texts in shown), strict=True):
            table.add_row(*cells)
        return table
