"""Rows of one world model in the table high-distance, in one process and in local workers: times, and equal rows.

`python -m reachcost_tools.bench.cells` writes `results/benchmarks/cells.json`: twenty minutes on two idle cores.
"""

import os
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from reachcost.core.machine import cores
from reachcost.experiments.cells import StudyRef
from reachcost.experiments.cells.executors import Executor, LocalPool, Start
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.rows import RowPlan
from reachcost.experiments.study import Study
from reachcost.experiments.tables import make_tables, plain_rows
from reachcost.results.records import read_run
from reachcost_paper.tworoom import STUDY
from reachcost_paper.tworoom.control import high_distance
from reachcost_paper.tworoom.settings import LEWM
from reachcost_tools.bench.record import publish

TABLE, SEED = "high-distance", LEWM[0].seed


def study() -> Study:
    """The rows of one LeWM in the table, one head each."""
    plan = STUDY.tables[TABLE]
    return replace(STUDY, tables={TABLE: replace(plan, rows=plain_rows(plan.metrics, _rows))})


def _rows() -> list[RowPlan]:
    return [replace(row, seeds=(SEED,), head_seeds=(None,)) for row in high_distance() if row.kind == "lewm"]


def main() -> None:
    """Time both, compare their rows, and print the ratio."""
    with TemporaryDirectory() as room:
        here, local = (run(Path(room) / name, start) for name, start in (("here", Executor), ("local", LocalPool)))
    ratio, same = round(local["seconds"] / here["seconds"], 3), here.pop("rows") == local.pop("rows")
    print(f"{ratio} of the time of one process; the same rows: {same}")
    publish("cells", {"here": here, "local": local, "ratio": ratio, "same_rows": same, "cores": cores()})


def run(out: Path, start: Start) -> dict:
    """Seconds in total and of each kind of cells, with an empty cache."""
    os.environ["REACHCOST_CACHE"] = str(out / "cache")
    began, busy = time.perf_counter(), time.process_time()
    for _ in make_tables([TableRequest(TABLE, StudyRef(study))], out, start, progress=True):
        pass
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    runs = [read_run(path.parent) for path in sorted(out.glob("runs/*/*/*/manifest.json"))]
    found = {"seconds": round(seconds, 1), "driver_processor_seconds": round(busy, 1), "cells": len(runs)}
    for kind in sorted({one.path.parent.name for one in runs}):
        spent = sum(one.manifest["elapsed_seconds"] for one in runs if one.path.parent.name == kind)
        found[f"{kind}_seconds"] = round(spent, 1)
    print(out.name, found)
    return {**found, "rows": {one.path.name: one.sha256["rows.parquet"] for one in runs}}


if __name__ == "__main__":
    main()
