"""The studies that come with reachcost: the one place where a new one is entered."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.results.tables import ResultTable
from reachcost.studies.cells.order import Order
from reachcost.studies.study import Tables
from reachcost.studies.tables import make_tables

STUDIES = ("tworoom", "toponav", "pusht", "suite")
"""Folders with a `STUDY` each; the first one has the demo."""


@cache
def study_of(name: str) -> Tables:
    """The study of that name."""
    return importlib.import_module(f"reachcost.studies.{name}").STUDY


def all_tables() -> dict[str, Tables]:
    """Every table, and the study that makes it."""
    return {table: study_of(name) for name in STUDIES for table in study_of(name).tables}


def groups() -> dict[str, tuple[str, ...]]:
    """Names that stand for several tables."""
    found = {group: tuple(tables) for name in STUDIES for group, tables in study_of(name).table_groups.items()}
    return {**found, "all": tuple(all_tables())}


def tables_of(name: str) -> tuple[str, ...]:
    """The tables that a name stands for."""
    if name not in all_tables() and name not in groups():
        raise ReachcostError(f"there is no table {name!r}: choose one of {', '.join((*groups(), *all_tables()))}")
    return groups().get(name, (name,))


def require_ready(names: Sequence[str]) -> None:
    """Refuse to begin with tables for which something is missing."""
    for name in names:
        all_tables()[name].require()


def order_of(name: str) -> Order:
    """The order for a table, which can be sent to other processes."""
    tables_of(name)
    return Order(name, study_of, (all_tables()[name].name,), command=f"reachcost reproduce {name}")


def reproduce(name: str, out: Path, progress: Progress | bool | None = None) -> ResultTable:
    """Run what is missing in `out` and write `out/tables/<name>.json` and `.md`."""
    order = order_of(name)
    require_ready((name,))
    (table,) = make_tables([order], out, progress=progress)
    return table


def demo(out: Path, progress: Progress, **smaller: int) -> tuple[ResultTable, Path | None]:
    """The demo of the first study: its table and, if there is one, its picture."""
    return importlib.import_module(f"reachcost.studies.{STUDIES[0]}.demo").run_demo(out, progress, **smaller)
