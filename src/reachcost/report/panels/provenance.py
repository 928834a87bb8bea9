"""How it was made: commands, runs, seeds, fingerprints, versions, machine and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reachcost.report.html import Markup, tag
from reachcost.report.material import Material, Record
from reachcost.report.panels.section import cannot, facts, number, scrolled_table, section

HEADINGS = (
    ("run", ""),
    ("seconds", "number"),
    ("rows", "number"),
    ("seeds and sha256 of inputs", ""),
    ("sha256 of rows", ""),
)
RUNS = 150
"""Runs that are listed."""
SETTINGS = {
    "model_sha256": "world model",
    "logs_sha256": "logs",
    "evaluation_set_sha256": "evaluation set",
    "full_set_sha256": "full evaluation set",
    "planner_seed": "planner seed",
    "head_seed": "head seed",
    "pair_seed": "pair seed",
    "candidate_seed": "candidate seed",
}


def provenance(material: Material) -> Markup:
    """The panel."""
    commands = [
        *material.commands,
        *(str(table.provenance["command"]) for table in material.tables if table.provenance.get("command")),
    ]
    parts: list[Markup] = []
    if commands:
        parts.append(tag("div", tag("h3", "Commands"), tag("pre", "\n".join(dict.fromkeys(commands))), class_="stack"))
    parts += [_audited(name, audit.settings) for name, audit in material.audits.items()]
    if material.records:
        parts.append(_runs(material.records))
    parts += [tag("p", text, class_="soft") for text in material.left_out]
    if not parts:
        return cannot(
            "provenance",
            "How it was made",
            "No command, run or audit is among what was given.",
        )
    return section("provenance", "How it was made", *parts)


def _audited(name: str, settings: Mapping[str, Any]) -> Markup:
    """What was audited; a setting that is no object is shown as it is."""
    told = {
        "world model": settings.get("model"),
        "sha256 of the logs": settings.get("logs_sha256"),
        "evaluation set": settings.get("evaluation_set"),
        "sha256 of the evaluation set": settings.get("evaluation_set_sha256"),
        "planner": settings.get("planner"),
        "planner seed": settings.get("planner_seed"),
        "versions": settings.get("versions"),
    }
    return tag("details", tag("summary", f"Audit {name}"), facts(told), class_="card stack")


def _runs(records: tuple[Record, ...]) -> Markup:
    seconds = sum(record.manifest["elapsed_seconds"] for record in records)
    machines = sorted({record.manifest["machine"] for record in records})
    versions = sorted(
        {f"{name} {version}" for record in records for name, version in record.manifest["versions"].items()}
    )
    table = scrolled_table("runs", HEADINGS, map(_row, records[:RUNS]), "small")
    left = len(records) - RUNS
    more = tag("p", f"{left} further runs are not listed.", class_="soft") if left > 0 else None
    told = {
        "runs": len(records),
        "seconds in all": number(seconds),
        "machine": "; ".join(machines),
        "versions": ", ".join(versions),
    }
    listed = tag("details", tag("summary", f"All {len(records)} runs"), table, more, class_="card stack")
    return tag("div", tag("h3", "Runs"), facts(told), listed, class_="stack")


def _row(record: Record) -> Markup:
    config, manifest = record.manifest["config"], record.manifest
    inputs = [f"{word} {str(config[name])[:12]}" for name, word in SETTINGS.items() if config.get(name) is not None]
    return tag(
        "tr",
        tag("th", f"{record.kind}/{record.name}", scope="row"),
        tag("td", number(manifest["elapsed_seconds"]), class_="number"),
        tag("td", str(manifest["rows"]), class_="number"),
        tag("td", ", ".join(inputs)),
        tag("td", tag("code", str(manifest["files"]["rows.parquet"])[:16])),
    )
