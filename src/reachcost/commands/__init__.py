"""What the `reachcost` command does: a subcommand is a typed function in a file of its own, its docstring its help.

Modules are imported where they are used, so that a mistake is answered at once.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.planning.cem import CEM

console = Console()


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


def cem(candidates: int, iterations: int) -> CEM:
    """The planner of so many candidates and rounds."""
    from reachcost.planning.usual import sized_planner

    require_least(2, candidates=candidates)
    require_least(1, iterations=iterations)
    return sized_planner(None, candidates, iterations)
