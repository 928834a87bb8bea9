"""Tables that are ordered, and the walk through one of them that finds its rows, or the cells that are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.results.records import Run, as_json, require_config
from reachcost.results.tables import TableRow
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.waiting import AwaitedRun, NotYet
from reachcost.studies.experiment import Experiment, Recording
from reachcost.studies.recorder import Recorder
from reachcost.studies.study import Study, Tables


@dataclass(frozen=True)
class Order:
    """A table that is to be made. It can be sent to another process if `study` is at the top of a module."""

    table: str
    """Name of the table."""
    study: Callable[..., Tables]
    """Returns the study that has it."""
    given: tuple[Any, ...] = ()
    """What that is called with."""
    episodes: int | None = None
    """Keep at most so many episodes of every evaluation set, spread over it."""
    command: str = ""
    """What makes this table from the command line, if anything does."""
    reads: tuple[str, ...] = ()
    """Files and directories of the user's that the study reads, as he wrote them."""


@dataclass
class Walk:
    """What a walk through the code of a table came to."""

    recording: Recording
    """Whose runs it asked for."""
    rows: Sequence[TableRow] | None = None
    """The lines of the table; None if something is missing."""
    missing: dict[Path, Cell] = field(default_factory=dict)
    """What is missing, by where it will be recorded; code that reads some of it may ask for more when that is there."""

    asked: tuple[Path, ...] = ()
    """Every run that it asked for, there or not."""

    def note(self, cell: Cell) -> Run:
        """Note a cell that is missing, and what it needs of finished runs that was not kept."""
        if known := self.missing.get(cell.path):
            require_config(Run(cell.path, {"config": as_json(known.config)}), cell.config)
        self.missing.setdefault(cell.path, cell)
        remade = self.recording.recorder.remade
        self.missing |= {path: remade[path] for path in cell.needs if path in remade and path not in self.missing}
        return AwaitedRun.of(cell)


class Desk:
    """Walks through tables below one output directory; tables of a study share its logs, models and latents.

    Args:
        out: The output directory.
        progress: Where cells that are computed here show how far they are.
        shared: Of a worker, which records nothing: a directory for logs that it shares with others.
    """

    def __init__(self, out: Path, progress: Progress, shared: Path | None = None) -> None:
        self._out, self._progress, self._shared = out, progress, shared
        self._recordings: dict[tuple[Any, ...], Recording] = {}

    def walk(self, order: Order) -> Walk:
        """Make the rows of a table, or note the cells that are missing; nothing is computed."""
        walk = Walk(self._recording(order))
        tables = walk.recording.study.tables
        if order.table not in tables:
            name = walk.recording.study.name
            raise ReachcostError(f"the study {name} has no table {order.table!r}: it has {', '.join(tables)}")
        recorder = walk.recording.recorder = Recorder(self._out, self._progress)
        usual = recorder.missing if self._shared is None else _refuse
        recorder.missing = walk.note
        try:
            rows = tables[order.table].rows(walk.recording)
            walk.rows = None if walk.missing else rows
        except NotYet:
            pass
        finally:
            recorder.missing = usual
        walk.asked = (*(run.path for run in recorder.used()), *walk.missing)
        return walk

    def _recording(self, order: Order) -> Recording:
        key = order.study, order.given, order.episodes
        if key not in self._recordings:
            study, given = order.study(*order.given), (self._out, self._progress, order.episodes)
            one_world = isinstance(study, Study)
            self._recordings[key] = Experiment(study, *given) if one_world else Recording(study, *given)
            self._recordings[key].shared = self._shared
        return self._recordings[key]


def _refuse(cell: Cell) -> Run:
    raise ReachcostError(
        f"{cell.name} is needed and is not there: let the configuration of whoever needs it name its sha256"
    )
