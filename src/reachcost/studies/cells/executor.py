"""Where cells are computed: what `here.py`, `local.py` and `on_ray.py` offer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple, Protocol

from reachcost.errors import ReachcostError
from reachcost.results.records import Result
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.order import Order


class Job(NamedTuple):
    """A cell to compute, and the table that asked for it: another process finds the cell by walking through that."""

    order: Order
    cell: Cell
    runs: tuple[Path, ...] = ()
    """Runs that the table asked for before the cell was found, those among them that are not there yet, too."""


@dataclass(frozen=True)
class Failure:
    """Why a cell was not computed."""

    reason: str
    error: Exception | None = None
    """What was raised, where it is at hand."""

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """What to say of an error: the message of ours; of others their kind, too, and where they come from."""
        if isinstance(error, ReachcostError):
            return cls(str(error), error)
        where = "".join(f" in {frame.filename}:{frame.lineno}" for frame in extract_tb(error.__traceback__)[-1:])
        return cls(f"{type(error).__name__}: {error}{where}", error)


class Executor(Protocol):
    """Computes cells and hands back what they came to; it records nothing."""

    @property
    def places(self) -> int:
        """How many cells it takes at a time."""
        ...

    @property
    def beside(self) -> str:
        """What is done for several cells together, in words, if anything is."""
        ...

    def begin(self, job: Job) -> None:
        """Take a cell, whose needs are recorded; only as many as there are places."""

    def finish(self) -> tuple[Job, Result | Failure]:
        """Wait until one of those that were begun is done."""
        ...

    def close(self) -> None:
        """Stop whatever is being computed."""


Start = Callable[[Path, Path], Executor]
"""Makes an executor for cells whose needs are recorded below the first directory; it may write into the second one."""
