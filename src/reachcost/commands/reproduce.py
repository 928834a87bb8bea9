"""`reachcost reproduce`: tables with the paper's numbers beside ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import tyro

from reachcost.commands import console, require_writable
from reachcost.commands.cells import On, require_place, show_plan, tables_made


def reproduce(
    name: Annotated[str, tyro.conf.Positional],
    out: Path = Path("results"),
    device: str = "auto",
    plan: bool = False,
    on: On = "here",
    workers: int | None = None,
) -> None:
    """Reproduce tables of the paper, with the paper's numbers beside ours. Interrupt and repeat at will.

    Args:
        name: A table, a group of them, or `all`; a wrong name lists them.
        out: Directory for records and tables.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
        plan: Only show what is done, what remains, and about how long that takes.
        on: Compute here, in one process, or in local worker processes.
        workers: How many of these; by default one for each core.
    """
    from reachcost.base.devices import use_device
    from reachcost.studies.registry import order_of, require_ready, tables_of

    use_device(device)
    require_place(on, workers)
    names = tables_of(name)
    require_ready(names)
    orders = [order_of(table) for table in names]
    if plan:
        show_plan(orders, out, workers)
        return
    require_writable(out, *(out / folder for folder in ("tables", "runs", "figures")))
    start = time.perf_counter()
    for table in tables_made(orders, out, on, workers):
        written = out / "tables" / table.name
        console.print(table.terminal(table.name))
        console.print(f"{written}.md\n{written}.json\n({time.perf_counter() - start:.0f} s)", highlight=False)
