"""`reachcost reproduce`: tables and figures with the paper's numbers next to ours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from reachcost.commands import command_line, console, name_page, options
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.experiments.cells.schedule import TableRequest

PUBLISHED = Path("results")
"""Directory whose records help to estimate times, in addition to those of --out."""


@dataclass(frozen=True)
class Options:
    """Options of commands that make tables."""

    report: options.OptionalPath = None
    """HTML file for a report with maps and episodes. Heads without stored weights are trained again for it."""
    device: options.Device = "auto"
    plan: options.Flag = False
    """Show which runs are recorded and which are missing, estimate their time, and compute nothing."""
    on: Literal["here", "local", "ray"] = "here"
    """Where to compute: `here` is this process, `local` are worker processes of this machine, `ray` is a cluster."""
    workers: options.OptionalInt = None
    """Number of worker processes; by default one for each core."""
    address: options.OptionalText = None
    """Address of the Ray cluster: auto, host:port or ray://host:port; by default RAY_ADDRESS or a new cluster."""

    def prepare(self) -> None:
        """Refuse options that do not fit together, and choose the device."""
        from reachcost.core.devices import use_device

        options.require_least(1, workers=self.workers)
        if self.workers is not None and self.on == "here":
            raise ReachcostError("--workers requires worker processes: add --on local")
        if self.address is not None and self.on != "ray":
            raise ReachcostError("--address requires a Ray cluster: add --on ray")
        use_device(self.device)

    def make(self, requests: Sequence[TableRequest], out: Path, title: str) -> None:
        """Compute missing runs, print every table once it is complete, and write a report of them if one is wanted."""
        from reachcost.core.progress import ConsoleProgress
        from reachcost.experiments.cells.executors import Executor, LocalPool
        from reachcost.experiments.cells.ray_tasks import RayTasks
        from reachcost.experiments.tables import make_tables
        from reachcost.report.collector import Collector
        from reachcost.report.material import Material
        from reachcost.report.report import Report
        from reachcost.results.durations import Durations

        if self.plan:
            self._show_plan(requests, out)
            return
        options.require_page(self.report)
        options.require_writable(out, *(out / folder for folder in ("tables", "runs", "figures")))
        collector, began, here = Collector(), time.perf_counter(), self.on == "here"
        ray = partial(RayTasks, workers=self.workers, address=self.address)
        start = {"here": Executor, "local": partial(LocalPool, workers=self.workers), "ray": ray}[self.on]
        shown = {"progress": ConsoleProgress(console), "console": None if here else console}
        for table, recording in make_tables(requests, out, start, **shown, durations=Durations([out, PUBLISHED])):
            if self.report is not None:
                collector.add(recording, table)
            console.print(table.terminal(table.name))
            print_files(began, *(out / "tables" / f"{table.name}.{kind}" for kind in ("md", "json")))
        if self.report is not None:
            name_page(Report(collector.material(), Material(commands=(command_line(),)), title=title).save(self.report))

    def _show_plan(self, requests: Sequence[TableRequest], out: Path) -> None:
        from rich import box
        from rich.table import Table

        from reachcost.core.machine import cores
        from reachcost.core.progress import duration
        from reachcost.experiments.tables import plan_of

        parts = [*plan_of(requests, out, [PUBLISHED])]
        shown = Table("table", "cells", "done", "remain", "about", box=box.SIMPLE)
        for part in parts:
            times = [duration(part.seconds)] * bool(part.seconds) + [f"{part.unknown} unknown"] * bool(part.unknown)
            shown.add_row(part.table, part.kind, str(part.done), str(len(part.remaining) or ""), " + ".join(times))
        console.print(shown)
        remaining, unknown = sum(len(part.remaining) for part in parts), sum(part.unknown for part in parts)
        seconds, processes = sum(part.seconds for part in parts), self.workers or cores()
        words = [f"{remaining} cells remain" if remaining else "everything is recorded"]
        if seconds:
            least = duration(seconds / processes)  # closed loops use every core in one process, too
            words.append(f"{duration(seconds)} in one process, at least {least} with --workers {processes}")
        words += [f"{unknown} of them have no comparable run on record"] if unknown else []
        console.print("; ".join(words), highlight=False, soft_wrap=True)


TableOptions = Annotated[Options, tyro.conf.arg(name="")]
DEFAULT = Options()


def print_files(began: float, *paths: Path) -> None:
    """Print what was written, and how many seconds after the beginning."""
    seconds = f"({time.perf_counter() - began:.0f} s)"
    console.print(*map(str, paths), seconds, sep="\n", highlight=False, markup=False, soft_wrap=True)


def reproduce(
    name: Annotated[str, tyro.conf.Positional, options.shown_as("NAME")],
    out: Path = Path("results"),
    run: TableOptions = DEFAULT,
) -> None:
    """Reproduce tables and figures of the paper, with its numbers next to ours. It can be interrupted and resumed.

    Args:
        name: A table, a figure, a group of tables, `figures`, or `all`. An unknown name lists the known ones.
        out: Directory for records, tables and figures.
    """
    from reachcost.experiments.registry import (
        all_figures,
        draw,
        missing_tables,
        request_of,
        require_ready,
        results_of,
    )

    run.prepare()
    names = results_of(name)
    require_ready(names)
    figures = [one for one in names if one in all_figures()]
    tables = [one for one in names if one not in figures]
    for figure in figures:  # a report shows tables
        tables += missing_tables(figure, out) if run.report is None else all_figures()[figure].tables
    requests = [request_of(table) for table in dict.fromkeys(tables)]
    if run.report is not None and not requests:
        raise ReachcostError(f"{name} uses no table, and a report shows tables: leave --report out")
    began = time.perf_counter()
    run.make(requests, out, f"reachcost reproduce {name}")
    for figure in [] if run.plan else figures:
        print_files(began, *draw(figure, out))
