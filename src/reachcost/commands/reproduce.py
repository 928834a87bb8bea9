"""`reachcost reproduce`: tables and figures with the paper's numbers next to ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import tyro

from reachcost.commands.cells import On, print_files, print_tables, require_place, show_plan
from reachcost.errors import ReachcostError


def reproduce(
    name: Annotated[str, tyro.conf.Positional],
    out: Path = Path("results"),
    report: Path | None = None,
    device: str = "auto",
    plan: bool = False,
    on: On = "here",
    workers: int | None = None,
    address: str | None = None,
) -> None:
    """Reproduce tables and figures of the paper, with its numbers next to ours. It can be interrupted and resumed.

    Args:
        name: A table, a figure, a group of them (`figures` for all of these), or `all`; a wrong name lists them.
        out: Directory for records, tables and figures.
        report: HTML file for a report, with maps and episodes; heads that were not kept are trained again for it.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
        plan: Only show what is recorded, what is missing, and about how long that takes.
        on: Where to compute: in this process (here), in local worker processes (local), or on a Ray cluster (ray).
        workers: Number of worker processes; by default one per core.
        address: Address of the Ray cluster: auto, host:port or ray://host:port; by default that of RAY_ADDRESS, or a
            new cluster on this machine.
    """
    from reachcost.core.devices import use_device
    from reachcost.experiments.registry import (
        all_figures,
        draw,
        missing_tables,
        request_of,
        require_ready,
        results_of,
        tables_of,
    )

    use_device(device)
    require_place(on, workers, address)
    names = results_of(name)
    require_ready(names)
    figures = [one for one in names if one in all_figures()]
    tables = [one for one in names if one not in figures]
    for figure in figures:  # a report shows tables
        tables += missing_tables(figure, out) if report is None else tables_of(figure)
    requests = [request_of(table) for table in dict.fromkeys(tables)]
    if report is not None and not requests:
        raise ReachcostError(f"{name} is drawn from no table, and a report shows tables: leave --report out")
    if plan:
        show_plan(requests, out, workers)
        return
    began = time.perf_counter()
    print_tables(requests, out, on, workers, address, report, f"reachcost reproduce {name}")
    for figure in figures:
        print_files(began, *draw(figure, out))
