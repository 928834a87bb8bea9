"""Tables of a study: their declaration, what they lack, and how they are made from recorded runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from reachcost.core.files import scratch_directory
from reachcost.core.progress import Progress, as_progress
from reachcost.experiments.cells import Cell, Recording, RunSpec, StudyRef, missing_of, with_needs
from reachcost.experiments.cells.executors import Executor, Recordings, Start
from reachcost.experiments.cells.schedule import Schedule, TableRequest
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, require_metrics, row_runs, table_row
from reachcost.experiments.study import Tables
from reachcost.results.durations import Durations
from reachcost.results.figures import Dot, draw_dots
from reachcost.results.records import exclusive, require_intact_runs
from reachcost.results.tables import SIMULATOR, ResultTable, TableRow

INTERVALS = (
    "Brackets are 95 % intervals: bootstrap over the members of a row and over the episodes that they share (20,000 "
    "resamples; 100,000 for differences). Members are world models, or heads if there is one world model, or planner "
    "seeds for `oracle` and `random`; several heads on each of several world models are averaged first. Intervals of "
    "shares are at least as wide as Wilson's for the distinct episodes, those of differences of shares at least as "
    "wide as Newcombe's. n counts episodes in all runs of a row."
)


@dataclass(frozen=True)
class TableRows:
    """The runs of a table, and the function that makes its rows from them."""

    runs: Sequence[RunSpec] | Callable[[Any], Iterable[Cell]]
    """The runs, or a function that returns cells of the `Experiment` (`Recording`, if there are several worlds)."""
    make: Callable[[Any], Sequence[TableRow]]
    """Makes the rows from recorded runs; reading another run is an error."""
    further: Callable[[Any], Iterable[Cell]] = lambda recording: ()
    """Returns cells that are known only when all others are recorded."""

    def cells(self, recording: Recording) -> dict[Path, Cell]:
        """Return every cell that can be declared so far, and its needs before it."""
        declared = self.runs(recording) if callable(self.runs) else recording.cells(self.runs)
        cells = with_needs(declared)
        if not missing_of(cells):
            cells |= with_needs(self.further(recording))
        return cells


@dataclass(frozen=True)
class TablePlan:
    """The declaration of a table."""

    note: str
    """What the table shows."""
    metrics: tuple[str, ...]
    """Its columns."""
    rows: TableRows
    """Its runs and rows."""
    intervals: str = INTERVALS
    """How its intervals are computed; empty if the note describes that."""
    legend: bool = True
    """Whether the study's legend of costs ends the note."""
    title: str = ""
    """Title of its picture."""
    drawn: tuple[str, ...] = ()
    """Columns in the picture."""
    references: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Value and name of a vertical line in the picture, by column."""
    picture: Callable[[Any, Path], None] | None = None
    """Draws another picture in place of dots with intervals."""


def plain_rows(metrics: tuple[str, ...], plans: Callable[[], Sequence[RowPlan]]) -> TableRows:
    """Return the rows of a table that consists of row plans only."""

    def runs(experiment: Experiment) -> list[Cell]:
        require_metrics(experiment.study, metrics)
        return row_runs(experiment, plans(), metrics)

    return TableRows(runs, lambda experiment: [table_row(experiment, plan, metrics) for plan in plans()])


class PlanRow(NamedTuple):
    """The cells of one kind in a table: how many are recorded, which are not, and how long these will take."""

    table: str
    kind: str
    done: int
    remaining: tuple[Cell, ...]
    seconds: float
    unknown: int
    """Number of cells without a comparable run on record."""


def plan_of(requests: Sequence[TableRequest], out: Path, elsewhere: Sequence[Path] = ()) -> Iterator[PlanRow]:
    """Yield what of every table is recorded in `out` and what remains, by kind of cell; nothing is computed or written.

    Cells that several tables share are counted in the first. Records in `elsewhere` help to estimate times.
    """
    require_intact_runs(out)
    recordings, durations, counted = Recordings(out), Durations([out, *elsewhere]), set[Path]()
    for request in requests:
        cells = request.cells(recordings)
        missing = missing_of(cells)
        done = Counter(cell.spec.kind for path, cell in cells.items() if path not in missing)
        new = [cell for path, cell in missing.items() if path not in counted]
        counted |= {*missing}
        for kind in dict.fromkeys([*done, *(cell.spec.kind for cell in new)]):
            remaining = tuple(cell for cell in new if cell.spec.kind == kind)
            known = [seconds for cell in remaining if (seconds := durations.of(cell.name, cell.config)) is not None]
            yield PlanRow(request.table, kind, done[kind], remaining, sum(known), len(remaining) - len(known))


def make_table(
    study: Tables,
    name: str,
    out: str | Path,
    progress: Progress | bool | None = None,
    episodes: int | None = None,
    command: str = "",
) -> ResultTable:
    """Compute the missing runs of one table in this process, then write it; returns the table.

    Args:
        study: The study that has the table.
        name: Name of the table.
        out: Directory for records, tables and pictures.
        progress: Where to show progress; True for the terminal.
        episodes: Maximum number of episodes of every evaluation set, spread over it.
        command: The command that makes this table, if there is one.
    """
    request = TableRequest(name, StudyRef(lambda: study, episodes=episodes), command)
    ((table, _),) = make_tables([request], Path(out), progress=progress)
    return table


def make_tables(
    requests: Sequence[TableRequest],
    out: Path,
    start: Start = Executor,
    progress: Progress | bool | None = None,
    durations: Durations | None = None,
    console: Console | None = None,
) -> Generator[tuple[ResultTable, Recording], None, None]:
    """Compute missing runs, write each table and its picture from the recorded rows, and yield it with its runs.

    `start` makes the executor; by default cells are computed in this process. `durations` are seconds of recorded runs,
    to estimate the time left. `console` shows cells that are computed in other processes. For others see `make_table`.
    """
    progress = as_progress(progress)
    with exclusive(out), scratch_directory(out / "cells") as scratch:
        require_intact_runs(out)
        recordings, executor = Recordings(out, progress), start(out, scratch)
        try:
            schedule = Schedule(executor, progress, durations or Durations([out]), console)
            for request, recording in schedule.tables(requests, recordings):
                yield _written(request, recording, out), recording
        finally:
            executor.close()


def _written(request: TableRequest, recording: Recording, out: Path) -> ResultTable:
    study, plan = recording.study, recording.study.tables[request.table]
    recording.runs.clear()
    rows = plan.rows.make(recording)
    made_by = f"Made by `{request.command}`." if request.command else ""
    note = "\n\n".join(filter(None, (f"{plan.note} {plan.intervals}".strip(), study.legend * plan.legend, made_by)))
    picture = out / "figures" / f"{request.table}.png"
    if plan.picture is not None:
        plan.picture(recording, picture)  # the provenance includes its runs
    provenance = _provenance(recording, request.command)
    table = ResultTable(request.table, note, plan.metrics, rows, provenance, study.headings)
    table.write(out)
    if plan.picture is None and plan.drawn:
        headings = {metric: table.heading(metric)[0] for metric in plan.drawn}
        shown = [row for row in rows if {*plan.drawn} & {*row.ours}]
        draw_dots(_dots(shown), headings, picture, plan.title, plan.references)
    return table


def _provenance(recording: Recording, command: str) -> dict[str, object]:
    runs = [run for _, run in recording.runs.values()]
    return {
        "command": command,
        "study": recording.study.name,
        "protocol": recording.study.protocol,
        "machine": sorted({run.manifest["machine"] for run in runs}),
        "seconds": round(sum(run.manifest["elapsed_seconds"] for run in runs)),
        "rows_sha256": {"/".join(run.path.parts[-3:]): run.sha256["rows.parquet"] for run in runs},
    }


def _dots(rows: Sequence[TableRow]) -> list[Dot]:
    """Return rows as a picture shows them, grouped by cost or by setting, whichever changes less often."""
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
