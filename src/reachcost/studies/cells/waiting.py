"""How a table is walked although runs are missing: what is not there can be named, but not read.

Code that makes tables asks for runs and reads them. In a walk that only looks for what is missing, reading one that is
not there raises `NotYet`. `every` and `row_of_runs` let the walk go on behind it, so that it finds as much as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

from reachcost.results.records import Compute, Run
from reachcost.results.tables import TableRow
from reachcost.studies.cells.cell import AWAITED, Cell

Thing = TypeVar("Thing")
Made = TypeVar("Made")
Given = ParamSpec("Given")


class NotYet(Exception):
    """What is read is of a run that is not there yet."""


class AwaitedRun(Run):
    """A run that is not there yet: others can name it in their configuration, and nobody can read it."""

    @classmethod
    def of(cls, cell: Cell) -> AwaitedRun:
        """The run that a cell will be."""
        return cls(cell.path, {"files": {"rows.parquet": AWAITED}, "artefacts": dict.fromkeys(cell.artefacts, AWAITED)})

    def require_intact(self) -> NoReturn:
        """There is nothing to check."""
        raise NotYet(self.path)

    def complete(self, compute: Compute) -> NoReturn:
        """There is nothing to complete."""
        raise NotYet(self.path)


def every(make: Callable[[Thing], Made], things: Iterable[Thing]) -> list[Made]:
    """What is made of each thing; if some of it is not there yet, all the others have asked for theirs.

    >>> every(str, (1, 2))
    ['1', '2']
    """
    made, waiting = [], None
    for thing in things:
        try:
            made.append(make(thing))
        except NotYet as error:
            waiting = error
    if waiting is not None:
        raise waiting
    return made


def row_of_runs(make: Callable[Given, TableRow]) -> Callable[Given, TableRow]:
    """A line of a table that is blank while its runs are not there, so that those after it can ask for theirs."""

    @wraps(make)
    def made(*given: Given.args, **named: Given.kwargs) -> TableRow:
        try:
            return make(*given, **named)
        except NotYet:
            return TableRow("", "", 0, _Unread(), _Unread(), None)

    return made


class _Unread(Mapping[str, Any]):
    """The values of a blank line."""

    def __getitem__(self, key: str) -> NoReturn:
        raise NotYet(key)

    def __iter__(self) -> Iterator[str]:
        raise NotYet

    def __len__(self) -> NoReturn:
        raise NotYet
