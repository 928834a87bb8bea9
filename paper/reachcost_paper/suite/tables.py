"""The study of the suite."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.experiments.cells import Recording, RunSpec
from reachcost.experiments.study import Tables
from reachcost.experiments.tables import TablePlan, TableRows
from reachcost.planning.control import control
from reachcost.results.records import Evaluated, require_rows
from reachcost.results.tables import TableRow
from reachcost_paper.package_data import read_notes
from reachcost_paper.suite import labels, verdicts
from reachcost_paper.suite.labels import Place, mean_row, require_ready, settings_of
from reachcost_paper.worlds import suite

COSTS = ("raw", "trm", "oracle", "random")


@dataclass(frozen=True)
class WorldRun(RunSpec):
    """Random actions, oracle, latent distance and repair in a world; rows are costs and episodes."""

    kind: ClassVar[str] = "worlds"
    world: str

    def name(self, recording: Recording) -> str:
        return self.world

    def config(self, recording: Recording) -> dict[str, Any]:
        return {**settings_of(recording, suite()[self.world]), "part": "report"}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        world = suite()[self.world]
        place = Place.of_world(recording, world)
        task, goals = place.task, place.goals
        head = HeadCost(world.repair(task, place.model, place.logs))
        parts = [control(task, place.model, {"raw": LatentMSE(), "trm": head}, goals, place.planner).rows()]
        for name in labels.BOUNDS:
            model, cost, planner = labels.OTHERS[name](place)
            parts.append(control(task, model, {name: cost}, goals, planner).rows())
        return Evaluated({key: np.concatenate([part[key] for part in parts]) for key in parts[0]}, goals.record)


def suite_rows(recording: Recording) -> list[TableRow]:
    rows = []
    for world in suite().values():
        run = recording.read(WorldRun(world.name))
        episodes = sorted(set(run.table()["episode"].to_pylist()))
        success = 100 * require_rows(run, {"cost": COSTS, "episode": episodes}, ("success",))["success"]
        for cost, values in zip(COSTS, success, strict=True):
            rows.append(mean_row(cost, world.name, {"success": values[None]}, world.structure))
    return rows


NOTES = read_notes("reachcost_paper.suite")
PLANS: dict[str, tuple[tuple[str, ...], TableRows]] = {
    "worlds": (("success",), TableRows([WorldRun(name) for name in suite()], suite_rows)),
    "directed": (labels.METRICS, TableRows(labels.DIRECTED_RUNS, labels.directed_rows)),
    "labels": (labels.METRICS, TableRows(labels.label_runs, labels.label_rows)),
    "budget-worlds": (labels.BUDGET_METRICS, TableRows(labels.budget_runs, labels.budget_rows)),
    "verdicts": (verdicts.METRICS, TableRows(verdicts.RUNS, verdicts.verdict_rows)),
}
STUDY = Tables(
    name="suite",
    protocol=2,
    tables={
        name: TablePlan(NOTES[name], metrics, rows, intervals="", legend=False)
        for name, (metrics, rows) in PLANS.items()
    },
    headings={
        "seconds": ("seconds", 0),
        "operations": ("operations", 2),
        "right": ("right %", 1),
        "wrong": ("wrong %", 1),
        "cannot_tell": ("cannot tell %", 1),
    },
    table_groups={"suite": tuple(PLANS)},
    require=require_ready,
)
