"""What the templates of a report show: the material, and the numbers that are computed from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from reachcost.audits.show import notes
from reachcost.audits.stage import Stage
from reachcost.audits.verdict import NOTHING
from reachcost.report.charts import Scale, linear, logarithmic, swarm
from reachcost.report.headline import headline
from reachcost.report.material import Material
from reachcost.report.page import number, plain
from reachcost.report.success import BOUNDS, charts_of, endings, success_rates
from reachcost.report.training import learning_curve
from reachcost.results.tables import ResultTable, TableRow

DOTS = 200
"""Maximum number of dots of a cost."""
ROWS = 400
"""Maximum number of rows of a table."""
RANK_SCALE = logarithmic(100)


def context(material: Material) -> dict[str, Any]:
    """Values for `templates/report.html.j2` and its panels."""
    scene = material.scene
    costs = {*scene.costs} if scene is not None else set()
    ended = endings(material)
    categories = {category for counts in ended.values() for category in counts}
    categories = sorted(categories, key=lambda category: (category != "success", category))
    return {
        "material": material,
        "scene": scene,
        "other_scenes": sum(1 for other in material.scenes if other.episodes and not {*other.costs} <= costs),
        "headline": headline(material),
        "charts": charts_of(material),
        "sources": len(success_rates(material)),
        "bounds": BOUNDS,
        "endings": ended,
        "categories": categories,
        "ending_headings": [("cost", ""), *((plain(name), "number") for name in (*categories, "episodes"))],
        "scale": linear(0, 100),
        "no_fault": NOTHING,
        "notes": notes,
        "stage_scale": stage_scale,
        "rank_scale": RANK_SCALE,
        "rankings": {name: _ranking(ranks) for name, ranks in material.ranks.items()},
        "learning_curve": learning_curve,
        "tables": [_table(table) for table in material.tables],
        "commands": _commands(material),
        "summary": _summary(material),
    }


def stage_scale(stage: Stage) -> Scale:
    """A scale that shows the value, interval and threshold of a stage."""
    values = [stage.threshold, stage.value or 0.0, *(stage.interval or ())]
    top = 100.0 if stage.measured.startswith("%") else 1.0
    return linear(min(0.0, *(1.2 * value for value in values)), max(top, *values))  # room for a line below 0


def _ranking(ranks: np.ndarray) -> dict[str, Any]:
    some = ranks if len(ranks) <= DOTS else np.sort(ranks)[np.linspace(0, len(ranks) - 1, DOTS).astype(int)]
    return {
        "swarm": swarm(RANK_SCALE, some),
        "mean": float(ranks.mean()),
        "median": float(np.median(ranks)),
        "n": len(ranks),
        "perfect": int((ranks == 0).sum()),  # their dots hide each other
    }


def _table(table: ResultTable) -> dict[str, Any]:
    """Headings with their classes, and rows of texts; columns without any number are left out."""
    several = len({row.model for row in table.rows}) > 1
    detailed = any(row.setting for row in table.rows)
    texts = ["cost", *(["model"] if several else []), *(["setting"] if detailed else [])]
    numbers = ["n", *(text for metric in table.metrics for text in (table.heading(metric), "paper"))]
    headings = [*((text, "") for text in texts), *((text, "number") for text in numbers)]
    rows = [_cells(table, row, several, detailed) for row in table.rows[:ROWS]]
    kept = [at for at in range(len(headings)) if at < len(texts) or any(row[at] != "–" for row in rows)]
    return {
        "name": table.name,
        "note": table.note,
        "headings": [headings[at] for at in kept],
        "rows": [[(row[at], headings[at][1]) for at in kept] for row in rows],
        "more": max(0, len(table.rows) - ROWS),
    }


def _cells(table: ResultTable, row: TableRow, several: bool, detailed: bool) -> list[str]:
    cells = [row.label, *([row.model] if several else []), *([row.setting] if detailed else []), str(row.n)]
    for metric in table.metrics:
        digits = table.digits(metric)
        ours = f"{row.ours_text(metric, digits)} {row.interval_text(metric, digits)}".strip()
        cells += [ours, row.paper_text(metric, digits)]
    return cells


def _commands(material: Material) -> list[str]:
    made = [table.provenance["command"] for table in material.tables if table.provenance.get("command")]
    return [*dict.fromkeys([*material.commands, *map(str, made)])]


def _summary(material: Material) -> dict[str, object]:
    """What all runs have in common."""
    manifests = [record.manifest for record in material.records]
    versions = {f"{name} {version}" for manifest in manifests for name, version in manifest["versions"].items()}
    return {
        "runs": len(manifests),
        "seconds in total": number(sum(manifest["elapsed_seconds"] for manifest in manifests)),
        "machine": "; ".join(sorted({manifest["machine"] for manifest in manifests})),
        "versions": ", ".join(sorted(versions)),
    }
