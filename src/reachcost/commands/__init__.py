"""What the `reachcost` command does: a subcommand is a typed function in a file of its own, its docstring its help.

Modules are imported where they are used, so that a mistake is answered at once.
"""

from __future__ import annotations

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


def cem(candidates: int, iterations: int) -> CEM:
    """The planner of so many candidates, a tenth of them elites."""
    from reachcost.planning.cem import CEM

    if candidates < 2 or iterations < 1:
        raise ReachcostError(f"--candidates {candidates} --iterations {iterations}: give at least 2 and 1")
    return CEM(candidates=candidates, iterations=iterations, elites=max(2, candidates // 10))
