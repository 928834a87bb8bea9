"""Installed studies: packages offer them through the entry point `reachcost.studies`.

The entry point names a study, or a function without arguments that returns several.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from reachcost.errors import ReachcostError, did_you_mean
from reachcost.experiments.cells import StudyRef
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.study import FigurePlan, Tables
from reachcost.results.records import exclusive

GROUP = "reachcost.studies"
"""Name of the entry point."""


@cache
def studies() -> dict[str, Tables]:
    """Return every installed study by its name."""
    found: dict[str, Tables] = {}
    for entry in entry_points(group=GROUP):
        try:
            offered = entry.load()
        except (ImportError, AttributeError) as error:
            raise ReachcostError(
                f"the studies of {entry.value} cannot be imported ({error}): install that package again, or remove it"
            ) from error
        for study in (offered,) if isinstance(offered, Tables) else offered():
            if study.name in found:
                raise ReachcostError(f"two installed studies are named {study.name!r}: uninstall or rename one of them")
            found[study.name] = study
    return found


def study_of(name: str) -> Tables:
    """Return the installed study of that name."""
    if name not in studies():
        raise ReachcostError(f"no study {name!r} is installed: install the package that declares it")
    return studies()[name]


def all_tables() -> dict[str, Tables]:
    """Return every table, and the study that makes it."""
    return {table: study for study in studies().values() for table in study.tables}


def all_figures() -> dict[str, FigurePlan]:
    """Return every figure of the installed studies."""
    return {name: figure for study in studies().values() for name, figure in study.figures.items()}


def groups() -> dict[str, tuple[str, ...]]:
    """Return names that stand for several tables or figures."""
    found = {group: tuple(tables) for study in studies().values() for group, tables in study.table_groups.items()}
    return {**found, "figures": tuple(all_figures()), "all": (*all_tables(), *all_figures())}


def results_of(name: str) -> tuple[str, ...]:
    """Return the tables and figures that a name stands for."""
    known = (*groups(), *all_tables(), *all_figures())
    if not studies():
        raise ReachcostError(
            "no studies are installed: install the paper's from a checkout of the repository (pip install ./paper), or "
            f"your own package with the entry point {GROUP}"
        )
    if name not in known:
        raise ReachcostError(f"there is no table or figure {name!r}: {did_you_mean(name, known)}")
    return groups().get(name, (name,))


def require_ready(names: Sequence[str]) -> None:
    """Raise if something that these tables need is not installed."""
    for name in names:
        if name in all_tables():
            all_tables()[name].require()


def missing_tables(figure: str, out: Path) -> list[str]:
    """Return the tables of a figure that `out` does not have."""
    tables = all_figures()[figure].tables
    return [table for table in tables if not (out / "tables" / f"{table}.json").exists()]


def draw(name: str, out: Path) -> list[Path]:
    """Draw a figure into `out/figures` from its tables."""
    with exclusive(out):
        return [*all_figures()[name].write(out)]


def request_of(name: str) -> TableRequest:
    """Return the request of a table, which can be sent to other processes."""
    results_of(name)
    return TableRequest(name, StudyRef(study_of, (all_tables()[name].name,)), f"reachcost reproduce {name}")
