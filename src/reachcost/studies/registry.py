"""The studies that come with reachcost: the one place where a new one is entered."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.results.figures.panels import PanelPlan, write_figure
from reachcost.results.records import exclusive
from reachcost.results.tables import ResultTable
from reachcost.studies.cells.cell import StudyRef
from reachcost.studies.cells.schedule import TableRequest
from reachcost.studies.study import Tables
from reachcost.studies.tables import Then, make_tables

STUDIES = ("tworoom", "toponav", "pusht", "suite")
"""Folders with a `STUDY` each; the first one has the demo."""


@cache
def study_of(name: str) -> Tables:
    """The study of that name."""
    return importlib.import_module(f"reachcost.studies.{name}").STUDY


def all_tables() -> dict[str, Tables]:
    """Every table, and the study that makes it."""
    return {table: study_of(name) for name in STUDIES for table in study_of(name).tables}


def all_figures() -> dict[str, list[PanelPlan]]:
    """Every figure, and its panels in the order of the studies that declare them."""
    found: dict[str, list[PanelPlan]] = {}
    for name in STUDIES:
        for figure, panels in study_of(name).figures.items():
            found.setdefault(figure, []).extend(panels)
    return found


def groups() -> dict[str, tuple[str, ...]]:
    """Names that stand for several tables or figures."""
    found = {group: tuple(tables) for name in STUDIES for group, tables in study_of(name).table_groups.items()}
    return {**found, "figures": tuple(all_figures()), "all": (*all_tables(), *all_figures())}


def results_of(name: str) -> tuple[str, ...]:
    """The tables and figures that a name stands for."""
    known = (*groups(), *all_tables(), *all_figures())
    if name not in known:
        raise ReachcostError(f"there is no table or figure {name!r}: choose one of {', '.join(known)}")
    return groups().get(name, (name,))


def require_ready(names: Sequence[str]) -> None:
    """Refuse to begin with tables for which something is missing."""
    for name in names:
        if name in all_tables():
            all_tables()[name].require()


def behind(figure: str) -> list[str]:
    """Tables that a figure is drawn from."""
    return [*dict.fromkeys(table for panel in all_figures()[figure] for table in panel.tables)]


def lacking(figure: str, out: Path) -> list[str]:
    """Those of them that `out` does not have."""
    return [table for table in behind(figure) if not (out / "tables" / f"{table}.json").exists()]


def draw(name: str, out: Path, progress: Progress | bool | None = None) -> list[Path]:
    """Make the tables behind a figure that are missing in `out`, then draw it into `out/figures`."""
    for table in lacking(name, out):
        reproduce(table, out, progress)
    with exclusive(out):
        return write_figure(name, all_figures()[name], out)


def request_of(name: str) -> TableRequest:
    """A table, and how other processes find its study."""
    results_of(name)
    return TableRequest(name, StudyRef(study_of, (all_tables()[name].name,)), f"reachcost reproduce {name}")


def reproduce(name: str, out: Path, progress: Progress | bool | None = None) -> ResultTable:
    """Run what is missing in `out` and write `out/tables/<name>.json` and `.md`."""
    request = request_of(name)
    require_ready((name,))
    (table,) = make_tables([request], out, progress=progress)
    return table


def demo(out: Path, progress: Progress, then: Then | None = None, **smaller: int) -> tuple[ResultTable, Path | None]:
    """The demo of the first study: its table and, if there is one, its picture."""
    return importlib.import_module(f"reachcost.studies.{STUDIES[0]}.demo").run_demo(out, progress, then=then, **smaller)
