"""The paper's tables, declared: what runs, from which seeds, and the paper's value beside ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reachcost.errors import ReachcostError
from reachcost.experiments.tables import ResultTable
from reachcost.experiments.toponav_recipes import reproduce_recipes
from reachcost.experiments.toponav_tables import reproduce_readings, reproduce_toponav
from reachcost.progress import Progress

EXPERIMENTS: dict[str, Callable[[Path, Progress], ResultTable]] = {
    "toponav": reproduce_toponav,
    "toponav-readings": reproduce_readings,
    "toponav-recipes": reproduce_recipes,
}


def reproduce(name: str, out: Path, progress: Progress | None = None) -> ResultTable:
    """Run what is missing in `out` and write `out/tables/<name>.json` and `.md`."""
    if name not in EXPERIMENTS:
        raise ReachcostError(f"there is no table {name!r}: choose one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name](out, progress or Progress())
