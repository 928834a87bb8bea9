"""`reachcost reproduce`: tables and figures with the paper's numbers next to ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import tyro

from reachcost.commands.cells import DEFAULT, TableOptions, print_files
from reachcost.errors import ReachcostError


def reproduce(
    name: Annotated[str, tyro.conf.Positional],
    out: Path = Path("results"),
    options: TableOptions = DEFAULT,
) -> None:
    """Reproduce tables and figures of the paper, with its numbers next to ours. It can be interrupted and resumed.

    Args:
        name: A table, a figure, a group of them (`figures` for all of these), or `all`. A wrong name lists them.
        out: Directory for records, tables and figures.
    """
    from reachcost.experiments.registry import (
        all_figures,
        draw,
        missing_tables,
        request_of,
        require_ready,
        results_of,
        tables_of,
    )

    options.prepare()
    names = results_of(name)
    require_ready(names)
    figures = [one for one in names if one in all_figures()]
    tables = [one for one in names if one not in figures]
    for figure in figures:  # a report shows tables
        tables += missing_tables(figure, out) if options.report is None else tables_of(figure)
    requests = [request_of(table) for table in dict.fromkeys(tables)]
    if options.report is not None and not requests:
        raise ReachcostError(f"{name} is drawn from no table, and a report shows tables: leave --report out")
    began = time.perf_counter()
    options.make(requests, out, f"reachcost reproduce {name}")
    for figure in [] if options.plan else figures:
        print_files(began, *draw(figure, out))
