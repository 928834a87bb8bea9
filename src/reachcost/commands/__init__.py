"""What the `reachcost` command does: a subcommand is a typed function in a file of its own, its docstring its help.

Modules are imported where they are used, so that a mistake is answered at once.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from reachcost.core.progress import PlainConsole
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.planning.cem import CEM

console = PlainConsole()
asked: list[str] = []
"""The arguments of the command that runs."""


def require_new(out: Path) -> None:
    """Refuse to write over something."""
    if out.exists():
        raise ReachcostError(f"{out} exists already: choose another --out, or remove it first")


def require_writable(*directories: Path) -> None:
    """Refuse directories that could not be made or written to, before there is anything to write."""
    for directory in directories:
        place = next(parent for parent in (directory.absolute(), *directory.absolute().parents) if parent.exists())
        if not place.is_dir():
            raise ReachcostError(f"{place} is a file: choose another --out, a directory")
        try:
            with tempfile.TemporaryFile(dir=place):  # permissions alone do not tell of a medium that is read only
                pass
        except OSError as error:
            raise ReachcostError(
                f"{place} cannot be written to ({error.strerror or error}): choose another --out, or change its rights"
            ) from error


def require_least(least: int, **options: int | None) -> None:
    """Refuse numbers below the least that a command can use; an option that is not given is None."""
    for name, number in options.items():
        if number is not None and number < least:
            raise ReachcostError(f"--{name.replace('_', '-')} {number}: give {least} or more")


def command_line() -> str:
    """What was typed, for records."""
    return shlex.join(["reachcost", *asked])


def require_page(path: Path | None, option: str = "--report") -> None:
    """Refuse a place where no report could be written."""
    if path is not None:
        if path.is_dir():
            raise ReachcostError(f"{option} {path} is a directory: name a file, {path / 'report.html'}")
        require_writable(path.parent)


def name_page(path: Path) -> None:
    """Say where a report is, and how to open it."""
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    text = f"report  {path} (open it in a browser: {opener} {shlex.quote(str(path))})"
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def cem(candidates: int, iterations: int) -> CEM:
    """The planner of so many candidates and rounds."""
    from reachcost.planning.control import sized_planner

    require_least(2, candidates=candidates)
    require_least(1, iterations=iterations)
    return sized_planner(None, candidates, iterations)
