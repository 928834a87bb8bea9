"""Tables of a study: what they are about, what makes their lines, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from reachcost.core.atomic import scratch_directory
from reachcost.core.progress import Progress, as_progress
from reachcost.experiments.cells.cell import Cell, RunSpec, StudyRef, missing_of, with_needs
from reachcost.experiments.cells.executors import InProcess, Recordings, Start
from reachcost.experiments.cells.progress import Titles, Watch
from reachcost.experiments.cells.schedule import TableRequest, completed
from reachcost.experiments.experiment import Recording
from reachcost.experiments.rows import RowPlan, row_runs, table_row
from reachcost.experiments.study import Tables
from reachcost.results.durations import Durations
from reachcost.results.figures import Dot, draw_dots
from reachcost.results.records import exclusive, require_intact_runs
from reachcost.results.tables import SIMULATOR, ResultTable, TableRow

INTERVALS = (
    "Brackets are 95 % intervals: bootstrap over the members of a line and over episodes, which all of them share "
    "(20,000 resamples; 100,000 for differences). Members are world models, or heads where there is one world model, "
    "or planner seeds for `oracle` and `random`; heads on each of several world models are averaged first. Intervals "
    "of shares reach at least as far as Wilson's for the distinct episodes, those of differences of shares as far as "
    "Newcombe's. n counts episodes in all runs of a line."
)

Then = Callable[[Recording, ResultTable], object]
"""What is done with a table while its engine is still there."""


@dataclass(frozen=True)
class TableRows:
    """The runs that a table is made from, declared, and what makes its rows of them."""

    runs: Sequence[RunSpec] | Callable[[Any], Iterable[Cell]]
    """The runs; or cells of the `Experiment` (of the `Recording`, if a study is of several worlds) and its variants."""
    make: Callable[[Any], Sequence[TableRow]]
    """Makes the rows from recorded runs; reading another run is an error."""
    further: Callable[[Any], Iterable[Cell]] = lambda recording: ()
    """Cells that are known only when all others are recorded."""

    def cells(self, recording: Recording) -> dict[Path, Cell]:
        """Every cell that is known by now and what it needs, needs first."""
        declared = self.runs(recording) if callable(self.runs) else recording.cells(self.runs)
        cells = with_needs(declared)
        if not missing_of(cells):
            cells |= with_needs(self.further(recording))
        return cells


@dataclass(frozen=True)
class TablePlan:
    """A table, declared."""

    note: str
    """What it is about."""
    metrics: tuple[str, ...]
    """Its columns."""
    rows: TableRows
    """Its runs and rows."""
    intervals: str = INTERVALS
    """How its intervals come about; empty if the note says it."""
    legend: bool = True
    """Whether the study's legend of costs stands below."""
    title: str = ""
    """Of its picture."""
    drawn: tuple[str, ...] = ()
    """Columns that are drawn."""
    references: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Lines across the picture, by column."""
    picture: Callable[[Any, Path], None] | None = None
    """Draws another picture than dots with intervals."""


def plain_rows(metrics: tuple[str, ...], lines: Callable[[], Sequence[RowPlan]]) -> TableRows:
    """The rows of a table that is nothing but lines."""
    return TableRows(
        lambda experiment: row_runs(experiment, lines(), metrics),
        lambda experiment: [table_row(experiment, line, metrics) for line in lines()],
    )


def make_table(
    study: Tables,
    name: str,
    out: str | Path,
    progress: Progress | bool | None = None,
    episodes: int | None = None,
    command: str = "",
    then: Then | None = None,
) -> ResultTable:
    """Run what is missing in `out`, then write one table, and its picture, from the recorded rows alone.

    Args:
        study: What runs.
        name: One of its tables.
        out: The directory of records, tables and pictures.
        progress: True shows how far it is.
        episodes: Keep at most so many episodes of every evaluation set, spread over it.
        command: What makes this table from the command line, if anything does.
        then: Called with the engine and the table once it is written, while the records are still ours alone.
    """
    request = TableRequest(name, StudyRef(lambda: study, episodes=episodes), command)
    (table,) = make_tables([request], Path(out), progress=progress, then=then)
    return table


def make_tables(
    requests: Sequence[TableRequest],
    out: Path,
    start: Start = InProcess,
    watch: Watch | None = None,
    progress: Progress | bool | None = None,
    then: Then | None = None,
) -> Iterator[ResultTable]:
    """Run what is missing in `out`, and write tables from the recorded rows, each as soon as it is complete.

    Args:
        requests: The tables.
        out: The directory of records, tables and pictures.
        start: Makes what computes cells; by default this process does.
        watch: Shows how far everything is; by default counts in the titles of `progress`.
        progress: True shows how far the cells that are computed here are.
        then: Called with the engine and each table once it is written, while the records are still ours alone.
    """
    progress = as_progress(progress)
    watch = watch or Titles(progress, Durations([out]))
    with exclusive(out), ExitStack() as stack:
        require_intact_runs(out)
        executor = start(out, stack.enter_context(scratch_directory(out / "cells")))
        stack.callback(watch.close)
        stack.callback(executor.close)
        for request, recording in completed(requests, Recordings(out, progress), executor, watch):
            table = _written(request, recording, out)
            if then is not None:
                then(recording, table)
            yield table


def _written(request: TableRequest, recording: Recording, out: Path) -> ResultTable:
    """Write a table whose runs are recorded, and its picture."""
    study, plan = recording.study, recording.study.tables[request.table]
    recording.recorder.forget()
    rows = plan.rows.make(recording)
    parts = [f"{plan.note} {plan.intervals}".strip(), study.legend * plan.legend]
    parts += [f"Made by `{request.command}`."] if request.command else []
    note = "\n\n".join(filter(None, parts))
    picture = out / "figures" / f"{request.table}.png"
    if plan.picture is not None:
        plan.picture(recording, picture)  # its runs are among those that the table names
    table = ResultTable(request.table, note, plan.metrics, rows, provenance(recording, request.command), study.headings)
    table.write(out)
    if plan.picture is None and plan.drawn:
        headings = {metric: table.heading(metric) for metric in plan.drawn}
        shown = [row for row in rows if {*plan.drawn} & {*row.ours}]
        draw_dots(dots(shown), headings, picture, plan.title, plan.references)
    return table


def provenance(experiment: Recording, command: str) -> dict[str, object]:
    """What made the table, where, in what time, from which rows."""
    runs = experiment.recorder.used()
    return {
        "command": command,
        "study": experiment.study.name,
        "protocol": experiment.study.protocol,
        "machine": sorted({run.manifest["machine"] for run in runs}),
        "seconds": round(sum(run.manifest["elapsed_seconds"] for run in runs)),
        "rows_sha256": {"/".join(run.path.parts[-3:]): run.sha256["rows.parquet"] for run in runs},
    }


def dots(rows: Sequence[TableRow]) -> list[Dot]:
    """The lines as a picture shows them, grouped by cost or by setting, whichever changes less often."""
    changes = {
        name: sum(getattr(a, name) != getattr(b, name) for a, b in pairwise(rows)) for name in ("cost", "setting")
    }
    group = min(changes, key=lambda name: changes[name] or len(rows))
    several = len({row.seed for row in rows}) > 1
    models = len({row.model for row in rows} - {SIMULATOR}) > 1
    return [
        Dot(
            " · ".join(filter(None, (row.model * models, row.label if several else row.cost, row.setting))),
            getattr(row, group),
            row.ours,
            row.interval,
            row.paper or {},
        )
        for row in rows
    ]
