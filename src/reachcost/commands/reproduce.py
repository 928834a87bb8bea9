"""`reachcost reproduce`: tables and figures with the paper's numbers beside ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import tyro

from reachcost.commands import console, require_writable


def reproduce(name: Annotated[str, tyro.conf.Positional], out: Path = Path("results"), device: str = "auto") -> None:
    """Reproduce tables and figures of the paper, with its numbers beside ours. Interrupt and repeat at will.

    Args:
        name: A table, a figure, a group of them (`figures` for all of these), or `all`; a wrong name lists them.
        out: Directory for records, tables and figures.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
    """
    from reachcost.base.devices import use_device
    from reachcost.base.progress import ConsoleProgress
    from reachcost.studies.registry import all_figures, draw, require_ready, results_of
    from reachcost.studies.registry import reproduce as make_table

    use_device(device)
    names = results_of(name)
    require_ready(names)
    require_writable(out, *(out / folder for folder in ("tables", "runs", "figures")))
    for made in names:
        start, cpu = time.perf_counter(), time.process_time()
        if made in all_figures():
            paths = draw(made, out, ConsoleProgress(console))
        else:
            console.print(make_table(made, out, ConsoleProgress(console)).terminal(made))
            paths = [out / "tables" / f"{made}.{kind}" for kind in ("md", "json")]
        console.print(
            *map(str, paths),
            f"({time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time)",
            sep="\n",
            highlight=False,
            soft_wrap=True,
        )
