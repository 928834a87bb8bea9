"""`reachcost reproduce`: tables with the paper's numbers beside ours."""

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
    """Reproduce tables of the paper, with the paper's numbers beside ours. Interrupt and repeat at will.

    Args:
        name: A table, a group of them, or `all`; a wrong name lists them.
        out: Directory for records and tables.
        report: HTML file for a report, with maps and episodes; heads that were not kept are trained again for it.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
    """
    from reachcost.base.devices import use_device
    from reachcost.base.progress import ConsoleProgress
    from reachcost.report.report import Report
    from reachcost.report.studied import studied
    from reachcost.studies.registry import reproduce as make_table
    from reachcost.studies.registry import require_ready, tables_of

    use_device(device)
    names = tables_of(name)
    require_ready(names)
    require_page(report)
    require_writable(out, *(out / folder for folder in ("tables", "runs", "figures")))
    made: list[ResultTable | Material] = []

    def then(experiment: Recording, table: ResultTable) -> None:
        made.extend([table, studied(experiment, table)])

    for table_name in names:
        start, cpu = time.perf_counter(), time.process_time()
        table = make_table(table_name, out, ConsoleProgress(console), then if report is not None else None)
        console.print(table.terminal(table_name))
        console.print(
            f"{out / 'tables' / table_name}.md\n{out / 'tables' / table_name}.json\n"
            f"({time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time)",
            highlight=False,
        )
    if report is not None:
        name_page(Report(*made, title=f"reachcost reproduce {name}").save(report))
