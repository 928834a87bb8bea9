"""How many goals are reached, with intervals, floor and ceiling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reachcost.audits.stage import Stage
from reachcost.pages.html import Markup, joined, tag
from reachcost.report.charts import bullet, linear
from reachcost.report.material import Loop, Material
from reachcost.report.panels.section import cannot, scrolled_table, section, share, shares, valued
from reachcost.results.stats import wilson
from reachcost.results.tables import ResultTable
from reachcost.studies.lines import SIMULATOR

BOUNDS = {"oracle": "yardstick: plans with simulator and true distance", "random": "floor: acts at random"}
DRAWN, LINES = 3, 40
"""Tables that are drawn, and lines of each."""
SCALE = linear(0, 100)


@dataclass(frozen=True)
class Line:
    """Success under one cost."""

    cost: str
    value: float
    interval: tuple[float, float] | None
    n: int
    model: str = ""
    setting: str = ""
    seed: int | None = None
    paper: float | None = None
    remark: str = ""


def success(material: Material) -> Markup:
    """The panel."""
    groups = success_lines(material)
    if not groups:
        why = "No closed loop is among these records: reachcost audit --task, or reachcost reproduce, runs some."
        return cannot("success", "Goals reached", why)
    parts = [tag("div", _drawn(name, lines), class_="card stack") for name, lines in list(groups.items())[:DRAWN]]
    more = len(groups) - DRAWN
    parts += [tag("p", f"{more} further tables with success are below.", class_="soft")] if more > 0 else []
    lead = "Share of episodes that reach their goal. Brackets on bars are 95 % intervals."
    return section("success", "Goals reached", *parts, _endings(material), lead=lead)


def success_lines(material: Material) -> dict[str, list[Line]]:
    """Success by where it is told: tables first; else what was just run, or what audits measured."""
    groups = {table.name: lines for table in material.tables if (lines := lines_of(table))}
    if not groups and material.loops:
        groups["closed loops"] = [_of_loop(loop) for loop in material.loops]
    if not groups:
        groups |= {name: lines for name, audit in material.audits.items() if (lines := _of_stages(name, audit.stages))}
    return groups


def lines_of(table: ResultTable) -> list[Line]:
    """Success in the lines of a table; those of single seeds only if it has no others."""
    rows = [row for row in table.rows if "success" in row.ours and "minus" not in row.cost.split()]
    rows = [row for row in rows if row.seed is None] or rows
    return [
        Line(
            *(
                row.cost,
                row.ours["success"],
                _pair(row.interval.get("success")),
                row.n,
                row.model,
                row.setting,
                row.seed,
            ),
            paper=(row.paper or {}).get("success"),
            remark=BOUNDS.get(row.cost, ""),
        )
        for row in rows
    ]


def _of_loop(loop: Loop) -> Line:
    reached, n = int(loop.success.sum()), len(loop.success)
    low, high = wilson(reached, n)
    return Line(loop.cost, 100 * reached / n, (100 * low, 100 * high), n, remark=BOUNDS.get(loop.cost, ""))


def _of_stages(name: str, stages: Sequence[Stage]) -> list[Line]:
    said = {
        "execution": (name, ""),
        "sampling": ("oracle", BOUNDS["oracle"]),
        "foresight": ("foresight", "told true ends"),
    }
    return [
        Line(said[stage.name][0], stage.value, _pair(stage.interval), stage.n, remark=said[stage.name][1])
        for stage in sorted(stages, key=lambda stage: [*said].index(stage.name) if stage.name in said else -1)
        if stage.name in said and stage.value is not None
    ]


def _pair(interval: Sequence[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (float(interval[0]), float(interval[1]))


def _drawn(name: str, lines: Sequence[Line]) -> Markup:
    models, seeds = len({line.model for line in lines} - {SIMULATOR}) > 1, len({line.seed for line in lines}) > 1
    papers = any(line.paper is not None for line in lines)
    rows = []
    for line in lines[:LINES]:
        bar = bullet(SCALE, line.value, line.interval, "bound" if line.cost in BOUNDS else "plain", line.paper)
        cells = [valued(share(line.value), shares(line.interval), f"n {line.n}")]
        cells += [tag("td", "–" if line.paper is None else share(line.paper), class_="number soft")] * papers
        rows.append(tag("tr", tag("th", *_named(line, models, seeds), bar, scope="row"), *cells))
    headings = [("cost", "wide"), ("reached, 95 %", "number"), *[("paper", "number")] * papers]
    missing = [
        f"{cost} ({role.partition(':')[0]})" for cost, role in BOUNDS.items() if cost not in {one.cost for one in lines}
    ]
    notes = [
        "The line across a bar is the paper's value." * papers,
        f"Not run here: {', '.join(missing)}." if missing else "",
        f"{len(lines) - LINES} more lines are in the table below." if len(lines) > LINES else "",
    ]
    said = tag("p", " ".join(filter(None, notes)), class_="soft small")
    return joined(tag("h3", name), scrolled_table(f"goals reached: {name}", headings, rows, "bars"), said)


def _named(line: Line, models: bool, seeds: bool) -> list[Markup]:
    words = [tag("code", line.cost)]
    seed = "" if line.seed is None or not seeds else f"seed {line.seed}"
    further = [text for text in (line.model * models, seed, line.setting, line.remark) if text]
    return [*words, tag("span", f" {' · '.join(further)}", class_="soft small")] if further else words


def _endings(material: Material) -> Markup | None:
    """How episodes ended, by cost; a table tells lines of one cost apart by their setting."""
    rows = [row for table in material.tables for row in table.rows]
    called = {run: f"{row.cost} {row.setting}".strip() for row in rows for run in (row.extra or {}).get("runs", ())}
    found = {called.get(loop.run, loop.cost): Counter(loop.category.tolist()) for loop in material.loops}
    listed = dict.fromkeys([*called.values(), *found])  # in the order of the tables
    counts = {cost: found[cost] for cost in listed if cost in found}
    names = sorted({name for found in counts.values() for name in found}, key=lambda name: (name != "success", name))
    if len(names) < 2:
        return None
    headings = [("cost", ""), *((plain(name), "number") for name in names)]
    rows = [
        tag(
            "tr",
            tag("th", tag("code", cost), scope="row"),
            *(tag("td", f"{found[name]}", class_="number") for name in names),
        )
        for cost, found in counts.items()
    ]
    table = scrolled_table("how episodes ended", headings, rows)
    return tag("div", tag("h3", "How episodes ended"), table, class_="card stack")


def plain(name: str) -> str:
    """The name of a category in words."""
    return name.replace("_", " ")
