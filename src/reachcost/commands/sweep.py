"""`reachcost sweep`: a file of lists becomes a study, a plan of cells and a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from reachcost.commands import options
from reachcost.commands.reproduce import DEFAULT, TableOptions
from reachcost.core.files import expand_path, require_regular
from reachcost.core.progress import PlainConsole
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.experiments.study import Study
    from reachcost.experiments.sweep import Sweep


def sweep(
    file: Annotated[Path, tyro.conf.Positional, options.shown_as("FILE")],
    out: Path = Path("sweeps"),
    trust: options.Flag = False,
    run: TableOptions = DEFAULT,
) -> None:
    """Run every combination of the settings in a file, and make one table. It can be interrupted and resumed.

    Args:
        file: A TOML file with a task, models, heads, costs, planners, seeds and more. `docs/sweeps.md` has an example.
        out: Directory for records and the table.
        trust: Import the code outside reachcost that the file names as module:name or path/to/file.py:name; that code
            can do anything. Without this option the command asks first, also for --plan. Without a terminal it refuses.
    """
    from reachcost.experiments.cells import StudyRef
    from reachcost.experiments.cells.schedule import TableRequest
    from reachcost.experiments.sweep import read_sweep

    run.prepare()
    text = read_file(file)
    declared = read_sweep(str(file), text)
    trust = trust or _user_agrees(declared)
    _require_trust(declared, trust)
    command = f"reachcost sweep {file.name}"
    study = StudyRef(study_of_sweep, (str(file), text, trust), declared.episodes, reads=_reads(declared))
    run.make([TableRequest(declared.name, study, command)], out, command)


def _reads(sweep: Sweep) -> tuple[str, ...]:
    """Return the user's files and directories among the names in a sweep."""
    names = [name.rpartition(":")[0] if options.is_custom(name) else name for name in (sweep.task, *sweep.models)]
    names += [sweep.logs] if isinstance(sweep.logs, str) else []
    return tuple(name for name in dict.fromkeys(names) if expand_path(name).exists())


def _user_agrees(sweep: Sweep) -> bool:
    """Ask at a terminal whether the code that a sweep names should be imported."""
    if not (code := _outside_code(sweep)) or sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    question = f"{sweep.file} names code outside reachcost, {code}. Importing that can run anything: import it? [y/N] "
    PlainConsole(stderr=True).print(question, end="", highlight=False, soft_wrap=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _require_trust(sweep: Sweep, trust: bool) -> None:
    """Refuse code outside reachcost, unless the user trusts it."""
    if not trust and (code := _outside_code(sweep)):
        raise ReachcostError(
            f"{sweep.file} names code outside reachcost, {code}, and importing that can run anything: pass --trust if "
            "you trust its author"
        )


def _outside_code(sweep: Sweep) -> str:
    """Return at most three of the names outside reachcost in a sweep, as words."""
    names = [name for name in (sweep.task, *sweep.models) if options.needs_trust(name)]
    return ", ".join([*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])])


def study_of_sweep(file: str, text: str, trust: bool = False) -> Study:
    """Return the study that a file declares, from its name and its content, as the file may change meanwhile."""
    from reachcost.experiments.sweep import read_sweep, sweep_study

    declared = read_sweep(file, text)
    _require_trust(declared, trust)
    return sweep_study(declared, options.task_option, options.logs_option, options.model_option)


def read_file(file: Path) -> str:
    """Return the text of a sweep file, or one character more than the longest."""
    from reachcost.experiments.sweep import LONGEST

    try:
        require_regular(file)
        with file.open(encoding="utf-8") as opened:
            return opened.read(LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ReachcostError(f"{file} cannot be read ({reason}): name a TOML file") from error
