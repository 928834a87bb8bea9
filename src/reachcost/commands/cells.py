"""What commands that make tables share: where cells are computed, and what a plan looks like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reachcost.commands import command_line, console, name_page, require_least, require_page
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.experiments.cells.schedule import TableRequest
    from reachcost.experiments.tables import Then
    from reachcost.results.tables import ResultTable

On = Literal["here", "local", "ray"]
"""In this process, in worker processes of this machine, or on a Ray cluster."""
PUBLISHED = Path("results")
"""Directory whose records estimate the time of cells, in addition to those of --out."""


def require_place(on: On, workers: int | None, address: str | None) -> None:
    """Refuse workers where there are none, and an address of nothing."""
    require_least(1, workers=workers)
    if workers is not None and on == "here":
        raise ReachcostError("--workers sets a number of processes: add --on local")
    if address is not None and on != "ray":
        raise ReachcostError("--address is that of a Ray cluster: add --on ray")


def tables_made(
    requests: Sequence[TableRequest],
    out: Path,
    on: On,
    workers: int | None,
    address: str | None = None,
    then: Then | None = None,
) -> Iterator[ResultTable]:
    """Run what is missing where it is wanted, and yield tables as they are complete."""
    from reachcost.core.machine import cores
    from reachcost.core.progress import ConsoleProgress, Progress
    from reachcost.experiments.cells.executors import LocalPool
    from reachcost.experiments.cells.progress import Lines, Titles
    from reachcost.experiments.cells.ray_tasks import RayTasks
    from reachcost.experiments.tables import make_tables
    from reachcost.results.durations import Durations

    durations = Durations([out, PUBLISHED])
    if on == "here":
        progress = ConsoleProgress(console)
        yield from make_tables(requests, out, watch=Titles(progress, durations), progress=progress, then=then)
        return
    start = partial(LocalPool if on == "local" else partial(RayTasks, address=address), workers=workers)
    watch = Lines(console, workers or cores(), durations)
    yield from make_tables(requests, out, start, watch, Progress(), then)


@contextmanager
def reported(page: Path | None, title: str) -> Iterator[Then | None]:
    """What tables are to be handed to, so that a report about them is written in the end; None if none is wanted."""
    from reachcost.report.material import Material
    from reachcost.report.report import Report
    from reachcost.report.studied import Studied

    if page is None:
        yield None
        return
    require_page(page)
    studied = Studied()
    yield studied.add
    name_page(Report(studied.material(), Material(commands=(command_line(),)), title=title).save(page))


def show_plan(requests: Sequence[TableRequest], out: Path, workers: int | None) -> None:
    """Print what of some tables is done and what remains; nothing is computed or written."""
    from rich import box
    from rich.table import Table

    from reachcost.core.machine import cores
    from reachcost.core.progress import duration
    from reachcost.experiments.cells.schedule import plan_of

    parts = [*plan_of(requests, out, [PUBLISHED])]
    shown = Table("table", "cells", "done", "remain", "about", box=box.SIMPLE)
    for part in parts:
        about = duration(part.seconds) if part.seconds else ""
        unknown = f"{part.unknown} unknown" if part.unknown else ""
        remain = str(len(part.remaining) or "")
        shown.add_row(part.table, part.kind, str(part.done), remain, " + ".join(filter(None, (about, unknown))))
    console.print(shown)
    remaining, unknown = sum(len(part.remaining) for part in parts), sum(part.unknown for part in parts)
    seconds, processes = sum(part.seconds for part in parts), workers or cores()
    words = [f"{remaining} cells remain"] if remaining else ["everything is recorded"]
    if seconds:
        least = duration(seconds / processes)  # closed loops use every core in one process, too
        words.append(f"{duration(seconds)} in one process, no less than {least} with --workers {processes}")
    words += [f"nothing comparable to {unknown} of them is on record"] if unknown else []
    console.print("; ".join(words), highlight=False, soft_wrap=True)
