"""An audit: what it found, how it is printed, and its files: a JSON object, and a Parquet file with rows next to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from reachcost.audits.criteria import Criterion
from reachcost.audits.stage import Stage
from reachcost.audits.stages import STAGES, verdict_of
from reachcost.core.files import new_file, require_regular, write_file
from reachcost.core.json_files import read_as, read_record
from reachcost.core.progress import PlainConsole
from reachcost.costs.latent import RAW, LatentMSE
from reachcost.errors import ReachcostError
from reachcost.planning.control import ControlRuns
from reachcost.results.records import read_parquet, write_rows
from reachcost.results.stats import Ranking

PARTS = ("stages", "criteria", "caveats", "categories")
RANKS = "rank of the best candidate: "  # prefix of the measurement of ranking rows; the name of the cost follows
STYLES = {"pass": "green", "survives": "green", "fail": "bold red", "refuted": "bold red"}


@dataclass(frozen=True)
class Audit:
    """What an audit found."""

    __pydantic_config__: ClassVar = {"arbitrary_types_allowed": True}  # arrays are in the rows, never in the JSON file

    stages: tuple[Stage, ...]  # every stage, in the order of `STAGES`
    criteria: tuple[Criterion, ...] = ()  # the paper's falsification criteria, if they were checked
    caveats: tuple[str, ...] = ()  # warnings about the stages
    categories: Mapping[str, int] = field(default_factory=dict)  # number of episodes by how they ended
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)  # what was audited, as JSON values
    # Closed loops of all episodes with the audited cost, the oracle and, if criteria ran it, latent distance.
    runs: ControlRuns | None = field(default=None, repr=False, compare=False)
    # Ranks of the same candidates by latent distance and the audited cost, if criteria were checked.
    rankings: Mapping[str, Ranking] = field(default_factory=dict, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """The stage to blame; `none` if episodes succeed, `cannot tell` if no measurement explains failures."""
        return verdict_of(self.stages).blamed

    @property
    def cost(self) -> str:
        """Name of the audited cost in closed loops, rankings and reports: `raw` is latent distance."""
        return cost_name(self.settings)

    @property
    def rows(self) -> dict[str, np.ndarray]:
        """The numbers behind stages, criteria and rankings as columns, one row per episode (goal) of each.

        Episodes are numbered as in the evaluation set, or as in the logs without one; -1 stands for no single episode.
        """
        parts = [(stage.name, stage.episodes, stage.rows) for stage in self.stages]
        parts += [(criterion.claim, criterion.episodes, criterion.rows) for criterion in self.criteria]
        for cost, ranking in self.rankings.items():
            episodes = np.arange(len(ranking.oracle_best_rank)) if self.runs is None else self.runs.episodes
            parts.append((f"{RANKS}{cost}", episodes, ranking.oracle_best_rank))
        names, numbers, values = zip(*parts, strict=True)
        return {
            "measurement": np.repeat(names, [len(value) for value in values]),
            "episode": np.concatenate(numbers),
            "value": np.concatenate([np.asarray(value, np.float64) for value in values]),
        }

    def document(self) -> dict[str, Any]:
        """Everything but the rows, as JSON values."""

        def of(part: Stage | Criterion) -> dict[str, Any]:
            return {name: value for name, value in vars(part).items() if name not in ("rows", "episodes")}

        return {
            "verdict": self.verdict,
            "stages": [of(stage) for stage in self.stages],
            "criteria": [of(criterion) for criterion in self.criteria],
            "caveats": list(self.caveats),
            "categories": dict(self.categories),
            **self.settings,
        }

    def notes(self) -> list[str]:
        """Remarks: other stages that fail, how episodes ended, and the caveats."""
        failing = [stage.name for stage in self.stages if stage.outcome == "fail"]
        found = []
        if self.verdict in STAGES and (others := ", ".join(name for name in failing if name != self.verdict)):
            found.append(f"{others} may fail because {self.verdict} fails: fix {self.verdict}, then audit again")
        if "execution" in failing:
            ended = ", ".join(f"{name} {count}" for name, count in self.categories.items())
            found.append(f"how episodes ended: {ended}".replace("_", " "))
        return [*found, *self.caveats]

    def show(self, console: Console | None = None) -> None:
        """Print every stage, the verdict and the criteria."""
        console = console or PlainConsole()
        goals, episodes = self.settings["evaluation_set"], self.settings["episodes"]
        console.print(f"evaluated on {f'{episodes} episodes of {goals}' if goals else 'logs alone'}", highlight=False)
        console.print(self._stage_table())
        blamed, reason, advice = verdict_of(self.stages)
        console.print(Text("verdict: ").append(blamed, style="bold"))
        console.print(Text("; ".join(filter(None, (reason, advice and f"next: {advice}")))))
        for note in self.notes():
            console.print(Text(f"note: {note}"))
        if self.criteria:
            console.print(self._criteria_table())

    def _stage_table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for heading in ("stage", "", "value", "95 %", "passes", "what was measured"):
            table.add_column(heading, justify="right" if heading in ("value", "95 %", "passes") else "left")
        for stage in self.stages:
            table.add_row(
                stage.name,
                _styled(stage.outcome),
                "–" if stage.value is None else f"{stage.value:.3g}",
                "" if stage.interval is None else f"{stage.interval[0]:.3g}–{stage.interval[1]:.3g}",
                f"{'≥' if stage.higher else '≤'} {stage.threshold:g}",
                stage.measured if stage.outcome != "unknown" else Text(stage.advice, style="dim"),
            )
        return table

    def _criteria_table(self) -> RenderableType:
        if all(criterion.outcome == "unknown" for criterion in self.criteria):
            missing = "; ".join(sorted({criterion.evidence for criterion in self.criteria}))
            return Text(f"The paper's falsification criteria were not checked: {missing}", style="dim")
        title = "The paper's falsification criteria"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
        table.add_column("outcome", no_wrap=True)
        table.add_column("claim and evidence")
        for criterion in self.criteria:
            text = Text(f"{criterion.claim}\n").append(criterion.evidence, style="dim")
            table.add_row(_styled(criterion.outcome), text)
        return table


def cost_name(settings: Mapping[str, Any]) -> str:
    """Name of the cost in an audit with these settings."""
    return RAW if settings.get("cost") == LatentMSE.__name__ else "head" if settings.get("heads") else "audited"


def _styled(outcome: str) -> Text:
    return Text(outcome, style=STYLES.get(outcome, "dim"))


def rows_path(path: Path) -> Path:
    """Path of the rows of the audit at `path`."""
    return path.with_suffix(".parquet")


def write_audit(audit: Audit, path: Path, **further: Any) -> None:
    """Write an audit with further settings, and its rows next to it."""
    with new_file(rows_path(path)) as partial:
        write_rows(audit.rows, partial)
    write_file(path, json.dumps({**audit.document(), **further}, indent=2, allow_nan=False) + "\n")


def read_audit(path: Path) -> Audit:
    """Read an audit and its rows; its verdict must follow from its stages and these rows."""
    return audit_of(read_record(path), path, lambda: read_rows(rows_path(path)))


def audit_of(document: Any, path: Path, read: Callable[[], dict[str, dict[str, Any]]]) -> Audit:
    """The audit of a JSON document from `path`; `read` reads its rows, as `read_rows` does."""
    if not is_audit(document):
        raise ReachcostError(f"{path} is not an audit: give the file that reachcost audit --out wrote")
    audit = read_as(Audit, {name: document[name] for name in PARTS if name in document}, str(path))
    measured = read()
    stages = tuple(replace(stage, **measured.get(stage.name, {})) for stage in audit.stages)
    settings = {name: value for name, value in document.items() if name not in (*PARTS, "verdict")}
    found = replace(audit, stages=stages, settings=settings)
    if found.verdict != document["verdict"]:
        raise ReachcostError(f"{path}: its verdict is not {found.verdict!r}, which its stages give: audit again")
    return found


def read_ranks(path: Path) -> dict[str, np.ndarray]:
    """% of candidates that each cost ranks before the truly best one [E], if the audit at `path` ranked candidates."""
    measured = read_rows(rows_path(path))
    return {name.removeprefix(RANKS): found["rows"] for name, found in measured.items() if name.startswith(RANKS)}


def is_audit(document: object) -> bool:
    """Whether a JSON value was written by an audit."""
    return isinstance(document, dict) and {"verdict", "stages"} <= document.keys()


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Rows and episodes by measurement."""

    def read() -> pa.Table:
        require_regular(path)
        return read_parquet(path, columns=["measurement", "episode", "value"])

    return rows_of(read, path)


def rows_of(read: Callable[[], pa.Table], path: Path) -> dict[str, dict[str, Any]]:
    """Rows and episodes by measurement, of a table that `read` reads from `path`."""
    try:
        table = read()
        names, episodes, values = (table[name].to_numpy() for name in ("measurement", "episode", "value"))
        if {type(name) for name in names} - {str} or values.dtype.kind not in "fiu" or episodes.dtype.kind not in "iu":
            raise ValueError("its columns hold no names and numbers")
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise ReachcostError(f"the rows {path} cannot be read ({why}): keep both files of the audit") from error
    return {
        name: {"rows": values[names == name], "episodes": episodes[names == name]}
        for name in dict.fromkeys(names.tolist())
    }
