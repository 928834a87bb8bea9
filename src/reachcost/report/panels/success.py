"""How many goals are reached, with intervals, floor and ceiling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reachcost.audits.planner import Audit
from reachcost.report.charts import bullet, linear
from reachcost.report.html import Markup, joined, tag
from reachcost.report.material import Loop, Material
from reachcost.report.panels.section import cannot, scrolled_table, section, share, shares, valued
from reachcost.results.stats import wilson
from reachcost.results.tables import SIMULATOR, ResultTable

ORACLE = "oracle"
BOUNDS = {ORACLE: "yardstick: plans with simulator and true distance", "random": "floor: acts at random"}
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
    protocol: str = ""
    """What lines that are compared share, beside what is shown of it."""


def success(material: Material) -> Markup:
    """The panel."""
    groups = success_lines(material)
    if not groups:
        why = "No closed loop is among these records: reachcost audit --task, or reachcost reproduce, runs some."
        return cannot("success", "Goals reached", why)
    tabled = {*groups} <= {table.name for table in material.tables}  # what is left out stands there
    drawn, lines = (DRAWN, LINES) if tabled else (None, None)
    parts = [tag("div", _drawn(name, those, lines), class_="card stack") for name, those in [*groups.items()][:drawn]]
    if more := len(groups) - len(parts):
        parts.append(tag("p", f"{more} further tables with success are below.", class_="soft"))
    lead = "Share of episodes that reach their goal. Brackets on bars are 95 % intervals."
    return section("success", "Goals reached", *parts, _endings(material), lead=lead)


def success_lines(material: Material) -> dict[str, list[Line]]:
    """Success by where it is told: tables first; else what was just run, or what audits measured."""
    groups = {table.name: lines for table in material.tables if (lines := lines_of(table))}
    if not groups and material.loops:
        groups["closed loops"] = [_of_loop(loop) for loop in material.loops]
    if not groups:
        groups |= {", ".join(audits): lines for audits in alike(material.audits) if (lines := _of_audits(audits))}
    return groups


def alike(audits: Mapping[str, Audit]) -> list[dict[str, Audit]]:
    """Audits by what was audited: those of one world model on the same episodes belong together."""
    groups: dict[tuple[str, ...], dict[str, Audit]] = {}
    for name, audit in audits.items():
        told = [audit.settings.get(key) for key in ("model", "evaluation_set_sha256", "episodes")]
        groups.setdefault(tuple(map(str, told)), {})[name] = audit
    return list(groups.values())


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
    return Line(
        *(loop.cost, 100 * reached / n, (100 * low, 100 * high), n, loop.model, loop.setting),
        remark=BOUNDS.get(loop.cost, ""),
        protocol=loop.protocol,
    )


def _of_audits(audits: Mapping[str, Audit]) -> list[Line]:
    """Closed loops of audits on the same episodes; their oracle is the same, too."""
    reached = [_of_stage(audit, "execution", audit.cost, name) for name, audit in audits.items()]
    told = [_of_stage(audit, "foresight", f"{audit.cost}, told true ends", name) for name, audit in audits.items()]
    oracle = [_of_stage(audit, "sampling", ORACLE) for audit in audits.values()]
    return [line for line in (*reached, *told, *[line for line in oracle if line][:1]) if line is not None]


def _of_stage(audit: Audit, name: str, cost: str, called: str = "") -> Line | None:
    """What a stage measured of success; what the audit is called is told unless that is the cost."""
    stage = next((stage for stage in audit.stages if stage.name == name), None)
    if stage is None or stage.value is None:
        return None
    remark = BOUNDS.get(cost, called * (called != audit.cost))
    return Line(cost, stage.value, _pair(stage.interval), stage.n, remark=remark)


def _pair(interval: Sequence[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (float(interval[0]), float(interval[1]))


def _drawn(name: str, lines: Sequence[Line], most: int | None) -> Markup:
    models, seeds = len({line.model for line in lines} - {SIMULATOR}) > 1, len({line.seed for line in lines}) > 1
    papers = any(line.paper is not None for line in lines)
    rows = []
    for line in lines[:most]:
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
        f"{len(lines) - len(rows)} more lines are in the table below." if len(lines) > len(rows) else "",
    ]
    said = tag("p", " ".join(filter(None, notes)), class_="soft small")
    return joined(tag("h3", name), scrolled_table(f"goals reached: {name}", headings, rows, "bars"), said)


def _named(line: Line, models: bool, seeds: bool) -> list[Markup]:
    words = [tag("code", line.cost)]
    seed = "" if line.seed is None or not seeds else f"seed {line.seed}"
    further = [text for text in (line.model * models, seed, line.setting, line.remark) if text]
    return [*words, tag("span", f" {' · '.join(further)}", class_="soft small")] if further else words


def _counts(material: Material) -> dict[str, Counter[str]]:
    """How many episodes ended in which way, by line of the tables; what no line names, by cost; else by audit."""
    rows = [row for table in material.tables for row in table.rows]
    models = len({row.model for row in rows} - {SIMULATOR}) > 1
    runs: dict[str, set[str]] = {}
    for row in rows:
        runs.setdefault(" ".join(filter(None, (row.cost, row.model * models, row.setting))), set()).update(row.runs)
    found = {name: Counter[str]() for name in runs}
    for loop in material.loops:
        for name in [name for name, those in runs.items() if loop.run in those] or [loop.cost]:
            found.setdefault(name, Counter()).update(loop.category.tolist())
    if not material.loops:
        found |= {name: Counter(audit.categories) for name, audit in material.audits.items()}
    return {name: endings for name, endings in found.items() if endings}


def _endings(material: Material) -> Markup | None:
    """How episodes ended; a table tells lines of one cost apart by world model and setting."""
    counts = _counts(material)
    names = sorted(
        {name for endings in counts.values() for name in endings}, key=lambda name: (name != "success", name)
    )
    if len(names) < 2:
        return None
    headings = [("cost", ""), *((plain(name), "number") for name in names), ("episodes", "number")]
    lines = [
        tag(
            "tr",
            tag("th", tag("code", cost), scope="row"),
            *(
                tag("td", f"{count:,}", class_="number")
                for count in (*(endings[name] for name in names), endings.total())
            ),
        )
        for cost, endings in counts.items()
    ]
    table = scrolled_table("how episodes ended", headings, lines)
    return tag("div", tag("h3", "How episodes ended"), table, class_="card stack")


def plain(name: str) -> str:
    """The name of a category in words."""
    return name.replace("_", " ")
