"""`reachcost reproduce`: tables with the paper's numbers beside ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import tyro

from reachcost.commands import console, require_writable


def reproduce(name: Annotated[str, tyro.conf.Positional], out: Path = Path("results"), device: str = "auto") -> None:
    """Reproduce tables of the paper, with the paper's numbers beside ours. Interrupt and repeat at will.

    Args:
        name: A table, a group of them, or `all`; a wrong name lists them.
        out: Directory for records and tables.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
    """
    from reachcost.base.devices import use_device
    from reachcost.base.progress import ConsoleProgress
    from reachcost.studies.registry import reproduce as make_table
    from reachcost.studies.registry import require_ready, tables_of

    use_device(device)
    names = tables_of(name)
    require_ready(names)
    require_writable(out, *(out / folder for folder in ("tables", "runs", "figures")))
    for table_name in names:
        start, cpu = time.perf_counter(), time.process_time()
        table = make_table(table_name, out, ConsoleProgress(console))
        console.print(table.terminal(table_name))
        console.print(
            f"{out / 'tables' / table_name}.md\n{out / 'tables' / table_name}.json\n"
            f"({time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time)",
            highlight=False,
        )
