"""`reachcost sweep`: a file of lists becomes a study, a plan of cells and a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from reachcost.base.files import require_regular
from reachcost.base.places import expanded
from reachcost.commands import console, require_writable
from reachcost.commands.cells import On, reported, require_place, show_plan, tables_made
from reachcost.commands.options import is_own, logs_option, model_option, task_option
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.data.logs import Logs
    from reachcost.protocols import WorldModel
    from reachcost.studies.study import Study
    from reachcost.studies.sweep.file import Sweep
    from reachcost.tasks.contract import Task


def sweep(
    file: Annotated[Path, tyro.conf.Positional],
    out: Path = Path("sweeps"),
    report: Path | None = None,
    device: str = "auto",
    plan: bool = False,
    on: On = "here",
    workers: int | None = None,
    address: str | None = None,
) -> None:
    """Run every combination of the lists in a file, and make one table of it. Interrupt and repeat at will.

    Args:
        file: A TOML file: task, models, heads, costs, seeds, planners, ... (docs/sweeps.md).
        out: Directory for records and table.
        report: HTML file for a report, with maps and episodes; heads that were not kept are trained again for it.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
        plan: Only show what is done, what remains, and about how long that takes.
        on: Compute here, in one process, in local worker processes, or on a Ray cluster.
        workers: How many of these; by default one for each core.
        address: Of the cluster: auto, host:port or ray://host:port; by default what RAY_ADDRESS says, or a new one of
            this machine.
    """
    from reachcost.base.devices import use_device
    from reachcost.studies.cells.cell import StudyRef
    from reachcost.studies.cells.schedule import TableRequest
    from reachcost.studies.sweep.file import read_sweep

    use_device(device)
    require_place(on, workers, address)
    text = read_file(file)
    declared = read_sweep(str(file), text)
    command = f"reachcost sweep {file.name}"
    study = StudyRef(study_of_sweep, (str(file), text), declared.episodes, reads=_reads(declared))
    requests = [TableRequest(declared.name, study, command)]
    if plan:
        show_plan(requests, out, workers)
        return
    require_writable(out, *(out / folder for folder in ("tables", "runs")))
    with reported(report, command) as then:
        for table in tables_made(requests, out, on, workers, address, then):
            written = out / "tables" / table.name
            console.print(table.terminal(table.name))
            console.print(f"{written}.md\n{written}.json", highlight=False, markup=False, soft_wrap=True)


def _reads(sweep: Sweep) -> tuple[str, ...]:
    """What of the names in a sweep are files and directories of the user's."""
    names = [name.rpartition(":")[0] if is_own(name) else name for name in (sweep.task, *sweep.models)]
    names += [sweep.logs] if isinstance(sweep.logs, str) else []
    return tuple(name for name in dict.fromkeys(names) if expanded(name).exists())


def study_of_sweep(file: str, text: str) -> Study:
    """The study that a file of that name and content declares; workers are given both, as the file may change."""
    from reachcost.studies.sweep.file import read_sweep
    from reachcost.studies.sweep.study import Finders, sweep_study

    return sweep_study(read_sweep(file, text), Finders(task_option, logs_option, _model))


def _model(text: str, task: Task, logs: Logs, clamp: bool) -> WorldModel:
    from reachcost.worldmodels.loading import load_world_model

    if is_own(text):
        return model_option(text, task=task, logs=logs)
    return load_world_model(text, clamp=clamp, logs=logs)


def read_file(file: Path) -> str:
    """The text of a sweep, and of what is far too long for one only as much as shows that."""
    from reachcost.studies.sweep.file import LONGEST

    try:
        require_regular(file)
        with file.open(encoding="utf-8") as opened:
            return opened.read(LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ReachcostError(f"{file} cannot be read ({reason}): name a TOML file") from error
