"""What `reachcost reproduce` and `reachcost sweep` share: making tables, and showing what remains to be computed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reachcost.commands import command_line, console, name_page, require_least, require_page, require_writable
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.experiments.cells.schedule import TableRequest

On = Literal["here", "local", "ray"]
"""In this process, in worker processes of this machine, or on a Ray cluster."""
PUBLISHED = Path("results")
"""Directory whose records help to estimate times, in addition to those of --out."""


def require_place(on: On, workers: int | None, address: str | None) -> None:
    """Refuse options of another place."""
    require_least(1, workers=workers)
    if workers is not None and on == "here":
        raise ReachcostError("--workers sets a number of processes: add --on local")
    if address is not None and on != "ray":
        raise ReachcostError("--address is that of a Ray cluster: add --on ray")


def print_tables(
    requests: Sequence[TableRequest],
    out: Path,
    on: On,
    workers: int | None,
    address: str | None,
    report: Path | None,
    title: str,
) -> None:
    """Compute missing runs, print every table once it is complete, and write a report of them if one is wanted."""
    from reachcost.core.progress import ConsoleProgress, Progress
    from reachcost.experiments.cells.executors import Executor, LocalPool
    from reachcost.experiments.cells.ray_tasks import RayTasks
    from reachcost.experiments.cells.schedule import Lines, Watch
    from reachcost.experiments.tables import make_tables
    from reachcost.report.material import Material
    from reachcost.report.report import Report
    from reachcost.report.studied import Studied
    from reachcost.results.durations import Durations

    require_page(report)
    require_writable(out, *(out / folder for folder in ("tables", "runs", "figures")))
    durations, studied, began = Durations([out, PUBLISHED]), Studied(), time.perf_counter()
    progress = ConsoleProgress(console) if on == "here" else Progress()
    watch = Watch(progress, durations) if on == "here" else Lines(console, durations)
    pools = {"here": Executor, "local": partial(LocalPool, workers=workers)}
    start = pools.get(on, partial(RayTasks, workers=workers, address=address))
    then = None if report is None else studied.add
    for table in make_tables(requests, out, start, watch, progress, then):
        console.print(table.terminal(table.name))
        print_files(began, *(out / "tables" / f"{table.name}.{kind}" for kind in ("md", "json")))
    if report is not None:
        name_page(Report(studied.material(), Material(commands=(command_line(),)), title=title).save(report))


def print_files(began: float, *paths: Path) -> None:
    """Print what was written, and how many seconds after the beginning."""
    seconds = f"({time.perf_counter() - began:.0f} s)"
    console.print(*map(str, paths), seconds, sep="\n", highlight=False, markup=False, soft_wrap=True)


def show_plan(requests: Sequence[TableRequest], out: Path, workers: int | None) -> None:
    """Print what of some tables is recorded and what remains; nothing is computed or written."""
    from rich import box
    from rich.table import Table

    from reachcost.core.machine import cores
    from reachcost.core.progress import duration
    from reachcost.experiments.cells.schedule import plan_of

    parts = [*plan_of(requests, out, [PUBLISHED])]
    shown = Table("table", "cells", "done", "remain", "about", box=box.SIMPLE)
    for part in parts:
        times = [duration(part.seconds)] * bool(part.seconds) + [f"{part.unknown} unknown"] * bool(part.unknown)
        shown.add_row(part.table, part.kind, str(part.done), str(len(part.remaining) or ""), " + ".join(times))
    console.print(shown)
    remaining, unknown = sum(len(part.remaining) for part in parts), sum(part.unknown for part in parts)
    seconds, processes = sum(part.seconds for part in parts), workers or cores()
    words = [f"{remaining} cells remain" if remaining else "everything is recorded"]
    if seconds:
        least = duration(seconds / processes)  # closed loops use every core in one process, too
        words.append(f"{duration(seconds)} in one process, no less than {least} with --workers {processes}")
    words += [f"{unknown} of them have no comparable run on record"] if unknown else []
    console.print("; ".join(words), highlight=False, soft_wrap=True)
