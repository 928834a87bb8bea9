"""What of some tables is done and what remains, with an estimate; nothing is computed or written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reachcost.base.progress import Progress
from reachcost.results.records import require_intact_runs
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.estimate import Estimates
from reachcost.studies.cells.order import Desk, Order


@dataclass(frozen=True)
class Part:
    """The cells of one kind in a table."""

    table: str
    """The table."""
    kind: str
    """What they are runs of."""
    done: int
    """Cells that are recorded."""
    remaining: tuple[Cell, ...]
    """Cells that are not."""
    seconds: float
    """What those of them take that something comparable is on record of."""
    unknown: int
    """How many of them nothing is known of."""


def plan_of(orders: Sequence[Order], out: Path, elsewhere: Sequence[Path] = ()) -> Iterator[Part]:
    """Every table by kind of cell; what several of them share remains in the first alone.

    Args:
        orders: The tables.
        out: Their output directory, which need not exist.
        elsewhere: Further output directories whose records tell what cells take.
    """
    require_intact_runs(out)
    desk, estimates, counted = Desk(out, Progress()), Estimates([out, *elsewhere]), set[Path]()
    for order in orders:
        walk = desk.walk(order)
        done = Counter(run.path.parent.name for run in walk.recording.recorder.used())
        new = [cell for path, cell in walk.missing.items() if path not in counted]
        counted |= {*walk.missing}
        for kind in dict.fromkeys([*done, *(cell.kind for cell in new)]):
            remaining = tuple(cell for cell in new if cell.kind == kind)
            seconds = [estimates.of(cell) for cell in remaining]
            known = [one for one in seconds if one is not None]
            yield Part(order.table, kind, done[kind], remaining, sum(known), len(seconds) - len(known))
