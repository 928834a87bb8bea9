"""Tables as files: one JSON object and the same table in Markdown, with the paper's value beside ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from reachcost.atomic import write_file

HEADINGS = {
    "success": "success %",
    "rho_geo": "ρ_geo",
    "rank": "rank %",
    "final_geo": "final geo",
    "validation_rmse": "validation RMSE",
}
DIGITS = {"success": 1, "rho_geo": 3, "rank": 2, "final_geo": 2, "validation_rmse": 2}


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
        seed: Head seed; None for the mean over seeds.
        extra: Further entries of the JSON object.
    """

    cost: str
    model: str
    n: int
    ours: Mapping[str, float]
    interval: Mapping[str, Sequence[float]]
    paper: Mapping[str, float] | None
    seed: int | None = None
    extra: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the row as the documented JSON object."""
        return {
            "cost": self.cost,
            "model": self.model,
            "seed": self.seed,
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
        return f"{self.ours[metric]:.{DIGITS[metric]}f}" if metric in self.ours else "–"

    def interval_text(self, metric: str) -> str:
        """The interval as text, or nothing."""
        if metric not in self.interval:
            return ""
        low, high = self.interval[metric]
        return f"[{low:.{DIGITS[metric]}f}, {high:.{DIGITS[metric]}f}]"

    def paper_text(self, metric: str) -> str:
        """The paper's value as text; a dash where it gives none."""
        value = (self.paper or {}).get(metric)
        return "–" if value is None else f"{value:.{DIGITS[metric]}f}"


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
        """The table in Markdown: means first, then single seeds."""
        heading = ["cost", "n", *(text for metric in self.metrics for text in (HEADINGS[metric], "paper"))]
        lines = [heading, ["---", *["---:"] * (len(heading) - 1)]]
        for row in self.rows:
            values = [
                text
                for metric in self.metrics
                for text in (
                    f"{row.ours_text(metric)} {row.interval_text(metric)}".strip(),
                    row.paper_text(metric),
                )
            ]
            lines.append([row.label, str(row.n), *values])
        body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"# {self.name}\n\n{self.note}\n\n{body}\n"

    def terminal(self, title: str) -> Table:
        """The means (or, of a single seed, its rows) as a rich table of at most 80 columns."""
        rows = [row for row in self.rows if row.seed is None] or self.rows
        columns: list[tuple[str, str, list[str]]] = [("", "", [row.cost for row in rows])]
        for metric in self.metrics:
            columns.append((HEADINGS[metric].split()[0], "bold", [row.ours_text(metric) for row in rows]))
            if metric == self.metrics[0]:
                columns.append(("95 %", "", [row.interval_text(metric).strip("[]").replace(", ", "–") for row in rows]))
            columns.append(("paper", "dim", [row.paper_text(metric) for row in rows]))
        shown = [column for column in columns if set(column[2]) - {"", "–"}]
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=0)
        for number, (heading, style, _) in enumerate(shown):
            table.add_column(heading, style=style, justify="right" if number else "left", no_wrap=True)
        for cells in zip(*(texts for _, _, texts in shown), strict=True):
            table.add_row(*cells)
        return table
