"""The paper's tables, declared: what runs, from which seeds, and the paper's value beside ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.experiments import toponav_recipes, tworoom_recipes
from reachcost.experiments.toponav_tables import reproduce_readings, reproduce_toponav
from reachcost.experiments.tworoom_audit_tables import AUDITS, reproduce_audit
from reachcost.experiments.tworoom_tables import SPECS, reproduce_tworoom
from reachcost.results.tables import ResultTable

EXPERIMENTS: dict[str, Callable[[Path, Progress], ResultTable]] = {
    "toponav": reproduce_toponav,
    "toponav-readings": reproduce_readings,
    "toponav-recipes": toponav_recipes.reproduce_recipes,
    **{name: partial(reproduce_tworoom, name) for name in SPECS},
    **{name: partial(reproduce_audit, name) for name in AUDITS},
    "tworoom-recipes": tworoom_recipes.reproduce_recipes,
}
GROUPS = {"tworoom": tuple(SPECS), "audits": tuple(AUDITS)}
"""Names that stand for several tables."""


def tables_of(name: str) -> tuple[str, ...]:
    """The tables that a name stands for."""
    if name not in EXPERIMENTS and name not in GROUPS:
        raise ReachcostError(f"there is no table {name!r}: choose one of {', '.join((*GROUPS, *EXPERIMENTS))}")
    return GROUPS.get(name, (name,))


def reproduce(name: str, out: Path, progress: Progress | None = None) -> ResultTable:
    """Run what is missing in `out` and write `out/tables/<name>.json` and `.md`."""
    tables_of(name)
    return EXPERIMENTS[name](out, progress or Progress())
