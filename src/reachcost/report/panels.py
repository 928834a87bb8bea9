"""The panels of a report: each function returns what its template shows, or why there is nothing to show.

A panel is a dictionary: `lead`, a sentence above its content; `missing`, the reason where there is no content; and
whatever its template `templates/NAME.html.j2` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reachcost.audits.criteria import Criterion
from reachcost.audits.planner import Audit
from reachcost.audits.show import notes
from reachcost.audits.stage import Stage
from reachcost.audits.verdict import NOTHING
from reachcost.report.charts import linear, logarithmic, swarm
from reachcost.report.material import Material
from reachcost.report.page import interval, number
from reachcost.report.success import success
from reachcost.report.training import learning
from reachcost.results.tables import ResultTable, TableRow

Panel = dict[str, Any]
FROM_RECORDS = (
    "These records hold outcomes alone: the command that made them draws episodes and maps if it is given --report, "
    "and audits keep theirs beside --out, in a file that ends in .scene.json."
)


def replay(material: Material) -> Panel:
    """Episodes step by step, under several costs side by side; scripts fill the panel."""
    scene = material.scene
    if scene is None:
        return {"missing": FROM_RECORDS}
    paths = next((episode.ways for episode in scene.episodes if episode.ways), ())
    if not paths:
        return {"missing": scene.without.get("replay", "No episode was kept.")}
    count = len(scene.episodes)
    shown = f"{count} of {scene.of} episodes, of many kinds" if scene.of > count else f"{count} episodes"
    lead = f"The same start, goal and random numbers under each cost; {shown}."
    if others := sum(1 for other in material.scenes if other.episodes and not {*other.costs} <= {*scene.costs}):
        lead += f" Scenes with other costs are in these records, too ({others}): report them by themselves."
    first = paths[0].cost
    return {
        "lead": lead,
        "paths": paths,
        "goal_frame": scene.plane is None and any(episode.goal_frame for episode in scene.episodes),
        "outcomes": sorted({way.outcome for one in scene.episodes for way in one.ways if way.cost == first}),
        "kinds": sorted({episode.group for episode in scene.episodes if episode.group}),
    }


# Stages of an audit

OUTCOMES = {"pass": "good", "survives": "good", "fail": "bad", "refuted": "bad"}
"""Colour of an outcome."""


def stages(material: Material) -> Panel:
    """Every stage of the planner with its threshold, a table for each audit."""
    if not material.audits:
        return {
            "missing": "Nothing was audited here: reachcost audit measures each stage with the others out of the way."
        }
    return {
        "lead": (
            "Each stage is measured with the others out of the way. The line across a bar is where passing begins."
        ),
        "audits": [_stages_of(name, audit) for name, audit in material.audits.items()],
    }


def _stages_of(name: str, audit: Audit) -> Panel:
    goals, episodes = audit.settings.get("evaluation_set"), audit.settings.get("episodes")
    return {
        "name": name,
        "verdict": audit.verdict,
        "kind": "good" if audit.verdict == NOTHING else "bad",
        "evaluated": f"Evaluated on {episodes} episodes of {goals}." if goals else "Evaluated on logs alone.",
        "rows": [_stage_row(stage) for stage in audit.stages],
        "notes": notes(audit),
        "criteria": [_criterion(criterion) for criterion in audit.criteria],
    }


def _stage_row(stage: Stage) -> Panel:
    row = {"stage": stage, "kind": OUTCOMES.get(stage.outcome, "")}
    if stage.value is None:
        return row
    values = [stage.threshold, stage.value, *(stage.interval or ())]
    top = 100.0 if stage.measured.startswith("%") else 1.0
    return row | {
        "rule": f"{stage.measured}, passes at {'≥' if stage.higher else '≤'} {number(stage.threshold)}",
        "bar": {"pass": "good", "fail": "bad"}.get(stage.outcome, "plain"),
        "scale": linear(min(0.0, *(1.2 * value for value in values)), max(top, *values)),
        "below": ", ".join(filter(None, (interval(stage.interval), f"n {stage.n}" if stage.n > 1 else ""))),
    }


def _criterion(criterion: Criterion) -> Panel:
    return {"criterion": criterion, "kind": OUTCOMES.get(criterion.outcome, "")}


# Ranking of candidates

COLOURS = 6
"""Number of colours for costs."""
DOTS = 200
"""Maximum number of dots of a cost."""


def ranking(material: Material) -> Panel:
    """SASC: how many candidates each cost puts before the one that truly ends nearest to the goal."""
    if not material.ranks:
        return {
            "missing": (
                "No single ranking is among these records, though tables may hold means of some: reachcost audit "
                "--task with criteria ranks candidates, as does rc.sasc."
            )
        }
    scale, rows = logarithmic(100), []
    for at, (name, ranks) in enumerate(material.ranks.items()):
        some = ranks if len(ranks) <= DOTS else np.sort(ranks)[np.linspace(0, len(ranks) - 1, DOTS).astype(int)]
        rows.append(
            {
                "name": name,
                "colour": f"series-{1 + at % COLOURS}",
                "swarm": swarm(scale, some),
                "mean": float(ranks.mean()),
                "below": f"median {number(float(np.median(ranks)))}, n {len(ranks)}",
                "n": len(ranks),
                "perfect": int((ranks == 0).sum()),  # their dots hide each other
            }
        )
    return {
        "lead": (
            "Every cost scores the same candidate action sequences, which are then executed. A dot is an episode: how "
            "many candidates the cost puts before the one that really ends nearest to the goal. The box holds half of "
            "the episodes, the line is the median."
        ),
        "rows": rows,
        "scale": scale,
        "ticks": (0, 1, 3, 10, 30, 100),
        "remarks": material.unranked,
    }


# Costs of places


def fields(material: Material) -> Panel:
    """Maps of each cost; where the world is not a plane, the logged states that each cost puts nearest to a goal."""
    scene = material.scene
    if scene is None:
        return {"missing": FROM_RECORDS}
    mapped = [episode for episode in scene.episodes if episode.fields]
    if mapped:
        return {
            "lead": (
                "The cost of ending at each place, for one goal: dark is cheap, light is expensive, lines join equal "
                "costs. A planner slides down to the darkest place it can see."
            ),
            "episodes": [episode.number for episode in mapped],
            "names": [name for name in scene.costs if name in mapped[0].fields],
        }
    if scene.neighbourhoods:
        why = scene.without.get("fields", "")
        return {
            "lead": f"{why} Instead, for some logged goals, the states that each cost puts nearest.".strip(),
            "names": [],
            "neighbourhoods": scene.neighbourhoods,
        }
    reasons = [scene.without[name] for name in ("fields", "neighbours") if name in scene.without]
    return {"missing": " ".join(reasons) or "There are no maps in this scene."}


# Tables

ROWS = 400
"""Maximum number of rows of a table."""


def tables(material: Material) -> Panel:
    """Every table, with the paper's values next to ours."""
    if not material.tables:
        return {"missing": "There is no table among these records: reachcost reproduce and compare write some."}
    return {
        "lead": "Ours beside the paper's values, where it prints them.",
        "tables": [_table(table) for table in material.tables],
    }


def _table(table: ResultTable) -> Panel:
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


# Provenance

RUNS = 150
"""Maximum number of runs in the list."""


def provenance(material: Material) -> Panel:
    """Commands, runs, seeds, fingerprints, versions, machine and time."""
    made = [table.provenance["command"] for table in material.tables if table.provenance.get("command")]
    commands = [*dict.fromkeys([*material.commands, *map(str, made)])]
    if not (commands or material.audits or material.records or material.left_out):
        return {"missing": "No command, run or audit is among what was given."}
    manifests = [record.manifest for record in material.records]
    versions = {f"{name} {version}" for manifest in manifests for name, version in manifest["versions"].items()}
    return {
        "commands": commands,
        "audits": {name: audit.settings for name, audit in material.audits.items()},
        "summary": {
            "runs": len(manifests),
            "seconds in all": number(sum(manifest["elapsed_seconds"] for manifest in manifests)),
            "machine": "; ".join(sorted({manifest["machine"] for manifest in manifests})),
            "versions": ", ".join(sorted(versions)),
        },
        "runs": material.records[:RUNS],
        "more": max(0, len(manifests) - RUNS),
        "left_out": material.left_out,
    }


PANELS: Mapping[str, tuple[str, str, Callable[[Material], Panel | None]]] = {
    "replay": ("Episodes", "Watch episodes", replay),
    "success": ("Success", "Goals reached", success),
    "stages": ("Stages", "Which stage is at fault", stages),
    "ranking": ("Ranking", "Does the cost put good candidates first?", ranking),
    "fields": ("Costs", "What each cost says about the world", fields),
    "learning": ("Learning", "How the head learned", lambda material: learning(material.heads)),
    "tables": ("Tables", "Tables", tables),
    "provenance": ("Provenance", "How it was made", provenance),
}
"""In the order of the page, by name of the template: the link to the panel, its heading, and its content."""


def panels(material: Material) -> list[Panel]:
    """All panels of a report."""
    found = []
    for name, (link, heading, content) in PANELS.items():
        panel = content(material)
        if panel is not None:
            found.append({"name": name, "link": link, "heading": heading, "lead": "", "missing": "", **panel})
    return found
