"""The audit of a planner in words: for the terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from reachcost.audits.falsification import Criterion
from reachcost.audits.planner import PlannerAudit
from reachcost.audits.stages import Stage
from reachcost.base.atomic import write_file
from reachcost.base.machine import versions
from reachcost.data.latents import model_identity

STYLES = {"pass": "green", "survives": "green", "fail": "bold red", "refuted": "bold red"}


def show_audit(audit: PlannerAudit, console: Console) -> None:
    """Print every stage and the verdict."""
    where = f"{len(audit.evaluation)} episodes of {audit.evaluation.name}" if audit.evaluation else "logs alone"
    console.print(f"judged on {where}", highlight=False)
    console.print(_stages(audit.stages))
    console.print(_verdict(audit))


def show_criteria(criteria: Sequence[Criterion], console: Console) -> None:
    """Print every falsification criterion with its outcome."""
    table = Table(
        title="The paper's falsification criteria", title_justify="left", box=box.SIMPLE_HEAD, show_edge=False
    )
    table.add_column("outcome", no_wrap=True)
    table.add_column("claim and evidence")
    for criterion in criteria:
        text = Text(f"{criterion.claim}\n").append(criterion.evidence, style="dim")
        table.add_row(Text(criterion.outcome, style=STYLES.get(criterion.outcome, "dim")), text)
    console.print(table)


def write_audit(audit: PlannerAudit, criteria: Sequence[Criterion], path: Path) -> None:
    """Write stages, verdict and criteria as one JSON object."""
    records = [dict(getattr(head, "record", {})) for head in getattr(audit.cost, "heads", ())]
    for record in records:
        record.pop("curve", None)
    document = {
        "verdict": audit.verdict,
        "stages": [asdict(stage) for stage in audit.stages],
        "criteria": [asdict(criterion) for criterion in criteria],
        "caveats": audit.caveats,
        "model": model_identity(audit.model),
        "cost": type(audit.cost).__name__,
        "heads": records,
        "planner": asdict(audit.planner),
        "planner_seed": audit.seed,
        "logs_sha256": audit.latents.logs.fingerprint,
        "evaluation_set": audit.evaluation.name if audit.evaluation else None,
        "evaluation_set_sha256": audit.evaluation.fingerprint if audit.evaluation else None,
        "episodes": len(audit.evaluation) if audit.evaluation else 0,
        "versions": versions(),
    }
    write_file(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def _stages(stages: Sequence[Stage]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("stage", "", "value", "95 %", "passes", "what was measured"):
        table.add_column(heading, justify="right" if heading in ("value", "95 %", "passes") else "left")
    for stage in stages:
        table.add_row(
            stage.name,
            Text(stage.outcome, style=STYLES.get(stage.outcome, "dim")),
            "–" if stage.value is None else f"{stage.value:.3g}",
            "" if stage.interval is None else f"{stage.interval[0]:.3g}–{stage.interval[1]:.3g}",
            f"{'≥' if stage.higher else '≤'} {stage.threshold:g}",
            stage.measured if stage.outcome != "unknown" else Text(stage.advice, style="dim"),
        )
    return table


def _verdict(audit: PlannerAudit) -> RenderableType:
    advice = {stage.name: stage.advice for stage in audit.stages}.get(audit.verdict)
    failing = [stage.name for stage in audit.stages if stage.outcome == "fail"]
    text = Text("verdict: ").append(audit.verdict, style="bold")
    if advice:
        lines = [f"next: {advice}"]
        later = [name for name in failing if name != audit.verdict]
        lines += [f"{', '.join(later)} may follow from it: audit again once it is mended"] if later else []
        if audit.simulated and "execution" in failing:
            names, counts = np.unique(audit.runs.category[0], return_counts=True)
            lines.append("episodes: " + ", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True)))
    elif audit.verdict == "unknown":
        lines = ["nothing that was measured fails; next: measure"]
        lines += [f"  {stage.name}: {stage.advice}" for stage in audit.stages if stage.outcome == "unknown"]
    else:
        lines = ["episodes reach their goals" + (f", although {', '.join(failing)} is weak" if failing else "")]
    return Group(text, *lines, *(f"note: {caveat}" for caveat in audit.caveats))
