"""Every table, with the paper's values beside ours."""

from __future__ import annotations

from itertools import compress

from reachcost.report.html import Markup, joined, tag
from reachcost.report.material import Material
from reachcost.report.panels.section import cannot, prose, scrolled_table, section
from reachcost.results.tables import ResultTable, TableRow

ROWS = 400
"""Lines of a table that are shown."""


def tables(material: Material) -> Markup:
    """The panel: the first table open, the others at a click."""
    if not material.tables:
        return cannot(
            "tables", "Tables", "There is no table among these records: reachcost reproduce and compare write some."
        )
    opened = len(material.tables) <= 2
    parts = [
        tag("details", tag("summary", table.name), _table(table), class_="card stack", open=opened or None)
        for table in material.tables
    ]
    return section("tables", "Tables", *parts, lead="Ours beside the paper's values, where it prints them.")


def _table(table: ResultTable) -> Markup:
    several = len({row.model for row in table.rows}) > 1
    detailed = any(row.setting for row in table.rows)
    texts = ["cost", *["model"] * several, *["setting"] * detailed]
    numbers = ["n", *(text for metric in table.metrics for text in (table.heading(metric), "paper"))]
    headings = [*((text, "") for text in texts), *((text, "number") for text in numbers)]
    lines = [_cells(table, row, several, detailed) for row in table.rows[:ROWS]]
    filled = [at < len(texts) or any(line[at] != "–" for line in lines) for at in range(len(headings))]
    rows = []
    for line in lines:
        cells = [tag("td", text, class_=kind or None) for text, (_, kind) in zip(line[1:], headings[1:], strict=True)]
        rows.append(tag("tr", *compress([tag("th", line[0], scope="row"), *cells], filled)))
    left = len(table.rows) - ROWS
    more = tag("p", f"{left} more lines are in the file.", class_="soft") if left > 0 else None
    return joined(scrolled_table(f"table {table.name}", compress(headings, filled), rows), more, *prose(table.note))


def _cells(table: ResultTable, row: TableRow, several: bool, detailed: bool) -> list[str]:
    values = []
    for metric in table.metrics:
        digits = table.digits(metric)
        values += [
            f"{row.ours_text(metric, digits)} {row.interval_text(metric, digits)}".strip(),
            row.paper_text(metric, digits),
        ]
    return [row.label, *[row.model] * several, *[row.setting] * detailed, str(row.n), *values]
