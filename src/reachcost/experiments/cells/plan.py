"""What of some tables remains, and how long that will take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reachcost.core.progress import Progress
from reachcost.experiments.cells.cell import Cell, missing_of
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.cells.worker import Recordings
from reachcost.results.durations import Durations
from reachcost.results.records import require_intact_runs


class Part(NamedTuple):
    """The cells of one kind in a table: how many are recorded, which are not, and how long these will take."""

    table: str
    kind: str
    done: int
    remaining: tuple[Cell, ...]
    seconds: float
    unknown: int
    """Number of cells to which nothing comparable is on record."""


def plan_of(requests: Sequence[TableRequest], out: Path, elsewhere: Sequence[Path] = ()) -> Iterator[Part]:
    """What of every table is done and what remains, by kind of cell; nothing is computed or written.

    Args:
        requests: The tables; what several of them share remains in the first alone.
        out: Their output directory, which need not exist.
        elsewhere: Further output directories whose records tell what cells take.
    """
    require_intact_runs(out)
    recordings, durations, counted = Recordings(out, Progress()), Durations([out, *elsewhere]), set[Path]()
    for request in requests:
        cells = request.cells(recordings)
        missing = missing_of(cells)
        done = Counter(cell.spec.kind for path, cell in cells.items() if path not in missing)
        new = [cell for path, cell in missing.items() if path not in counted]
        counted |= {*missing}
        for kind in dict.fromkeys([*done, *(cell.spec.kind for cell in new)]):
            remaining = tuple(cell for cell in new if cell.spec.kind == kind)
            known = [seconds for cell in remaining if (seconds := cell.seconds(durations)) is not None]
            yield Part(request.table, kind, done[kind], remaining, sum(known), len(remaining) - len(known))
