"""`reachcost reproduce`: tables and figures with the paper's numbers beside ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from reachcost.commands import console, name_page, require_page, require_writable

if TYPE_CHECKING:
    from reachcost.report.material import Material
    from reachcost.results.tables import ResultTable
    from reachcost.studies.experiment import Recording


def reproduce(
    name: Annotated[str, tyro.conf.Positional],
    out: Path = Path("results"),
    report: Path | None = None,
    device: str = "auto",
) -> None:
    """Reproduce tables and figures of the paper, with its numbers beside ours. Interrupt and repeat at will.

    Args:
        name: A table, a figure, a group of them (`figures` for all of these), or `all`; a wrong name lists them.
        out: Directory for records, tables and figures.
        report: HTML file for a report, with maps and episodes; heads that were not kept are trained again for it.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
    """
    from reachcost.base.devices import use_device
    from reachcost.base.progress import ConsoleProgress
    from reachcost.report.report import Report
    from reachcost.report.studied import studied
    from reachcost.studies.registry import all_figures, draw, require_ready, results_of
    from reachcost.studies.registry import reproduce as make_table

    use_device(device)
    names = results_of(name)
    require_ready(names)
    require_page(report)
    require_writable(out, *(out / folder for folder in ("tables", "runs", "figures")))
    material: list[ResultTable | Material] = []

    def then(experiment: Recording, table: ResultTable) -> None:
        material.extend([table, studied(experiment, table)])

    for made in names:
        start, cpu = time.perf_counter(), time.process_time()
        if made in all_figures():
            paths = draw(made, out, ConsoleProgress(console))
        else:
            table = make_table(made, out, ConsoleProgress(console), then if report is not None else None)
            console.print(table.terminal(made))
            paths = [out / "tables" / f"{made}.{kind}" for kind in ("md", "json")]
        console.print(
            *map(str, paths),
            f"({time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time)",
            sep="\n",
            highlight=False,
            soft_wrap=True,
        )
    if report is not None:
        name_page(Report(*material, title=f"reachcost reproduce {name}").save(report))
