"""Show an audit in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from reachcost.audits.criteria import Criterion
from reachcost.audits.planner import Audit
from reachcost.audits.stage import Stage
from reachcost.audits.stages import STAGES
from reachcost.audits.verdict import verdict_of
from reachcost.core.progress import PlainConsole

STYLES = {"pass": "green", "survives": "green", "fail": "bold red", "refuted": "bold red"}


def show_audit(audit: Audit, console: Console | None = None) -> None:
    """Print every stage, the verdict and the criteria."""
    console = console or PlainConsole()
    goals, episodes = audit.settings["evaluation_set"], audit.settings["episodes"]
    console.print(f"evaluated on {f'{episodes} episodes of {goals}' if goals else 'logs alone'}", highlight=False)
    console.print(_stages(audit.stages))
    console.print(_verdict(audit))
    if audit.criteria:
        console.print(_criteria(audit.criteria))


def _criteria(criteria: Sequence[Criterion]) -> RenderableType:
    missing = {criterion.evidence for criterion in criteria}
    if all(criterion.outcome == "unknown" for criterion in criteria):
        return Text(f"The paper's falsification criteria are unknown: {'; '.join(sorted(missing))}", style="dim")
    table = Table(
        title="The paper's falsification criteria", title_justify="left", box=box.SIMPLE_HEAD, show_edge=False
    )
    table.add_column("outcome", no_wrap=True)
    table.add_column("claim and evidence")
    for criterion in criteria:
        text = Text(f"{criterion.claim}\n").append(criterion.evidence, style="dim")
        table.add_row(Text(criterion.outcome, style=STYLES.get(criterion.outcome, "dim")), text)
    return table


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


def _verdict(audit: Audit) -> RenderableType:
    blamed, reason, advice = verdict_of(audit.stages)
    text = Text("verdict: ").append(blamed, style="bold")
    why = "; ".join(filter(None, (reason, advice and f"next: {advice}")))
    return Group(text, Text(why), *(Text(f"note: {note}") for note in notes(audit)))


def notes(audit: Audit) -> list[str]:
    """What else to know: other stages that fail, how episodes ended, and the caveats."""
    failing = [stage.name for stage in audit.stages if stage.outcome == "fail"]
    found = []
    if audit.verdict in STAGES and (others := ", ".join(name for name in failing if name != audit.verdict)):
        found.append(f"{others} may fail because of it: audit again after fixing {audit.verdict}")
    if "execution" in failing:
        ended = ", ".join(f"{count} {name}" for name, count in audit.categories.items())
        found.append(f"episodes: {ended}".replace("_", " "))
    return [*found, *audit.caveats]
