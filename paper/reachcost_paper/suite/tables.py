"""The study of the suite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import Recording
from reachcost.experiments.rows import mean_intervals
from reachcost.experiments.study import Tables
from reachcost.experiments.tables import TablePlan, TableRows
from reachcost.planning.control import control
from reachcost.planning.planner import RandomPolicy
from reachcost.results.records import Evaluated, require_rows
from reachcost.results.tables import TableRow
from reachcost_paper.suite import budget
from reachcost_paper.suite.labels import METRICS, directed_rows, directed_runs, label_rows, label_runs, require_ready
from reachcost_paper.suite.settings import settings_of, world_of, worlds
from reachcost_paper.suite.verdicts import METRICS as JUDGED
from reachcost_paper.suite.verdicts import NOTE, VERDICTS, verdict_rows
from reachcost_paper.worlds.faults import whole
from reachcost_paper.worlds.world import World

COSTS = ("raw", "trm", "oracle", "random")
SUITE_NOTE = (
    "Worlds of different structure, on the set `report`; settings of a world were tried out on `tune`. `raw` is latent "
    "distance, `trm` the repair from logs with the settings of the world, `oracle` plans with the simulator and the "
    "true distance, `random` acts at random. Brackets are 95 % intervals: bootstrap over episodes, at least as wide as "
    "Wilson's."
)


@dataclass(frozen=True)
class WorldRun(RunSpec):
    """Floor, ceiling, latent distance and the repair in a world; rows are costs and episodes."""

    kind: ClassVar[str] = "worlds"
    world: str

    def name(self, recording: Recording) -> str:
        """The world."""
        return self.world

    def config(self, recording: Recording) -> dict[str, Any]:
        """The world and its set."""
        return {**settings_of(recording, world_of(self.world)), "part": "report"}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        """Run every episode under every cost."""
        world = world_of(self.world)
        planner = whole(world, "report")
        task, model, goals = planner.task, planner.model, planner.evaluation
        head = HeadCost(world.repair(task, model, planner.logs)) if world.cost == "raw" else planner.cost
        exact = exact_model(task, model, goals.starts)
        walker = RandomPolicy() if task.discrete_actions is None else RandomPolicy(task.discrete_actions)
        runs = [
            control(task, model, {"raw": LatentMSE(), "trm": head}, goals, planner.search),
            control(task, exact, {"oracle": OracleGeodesic(exact)}, goals, planner.search),
            control(task, model, {"random": LatentMSE()}, goals, walker),
        ]
        parts = [run.rows() for run in runs]
        return Evaluated({key: np.concatenate([part[key] for part in parts]) for key in parts[0]}, goals.record)


def suite_rows(recording: Recording) -> list[TableRow]:
    """Floor, ceiling, latent distance and the repair in every world."""
    return [row for world in worlds() for row in _rows(recording, world)]


def _rows(recording: Recording, world: World) -> list[TableRow]:
    run = recording.read(WorldRun(world.name))
    episodes = sorted(set(run.table()["episode"].to_pylist()))
    success = 100 * require_rows(run, {"cost": COSTS, "episode": episodes}, ("success",))["success"]
    return [
        TableRow(
            cost=cost,
            model=world.name,
            n=len(episodes),
            ours={"success": float(values.mean())},
            interval=mean_intervals({"success": values[None]}, {"success"}),
            paper=None,
            setting=world.structure,
        )
        for cost, values in zip(COSTS, success, strict=True)
    ]


WAYS = (
    "Where labels come from, and which head learns them: `trm` is our head (`embedding`, symmetric) on logged times, "
    "`trm-paper` the paper's, `temporal-iqe` a quasimetric that is told the order of time; `stitched` and `imagined` "
    "are shortest ways over logged and over imagined transitions, with `embedding` the shorter of there and back, with "
    "`iqe` and `mrn`, two quasimetrics, directed. `trm-auto` is what `reachcost fit --labels auto` makes of the logs, "
    "decided by what is measured on them. Peers, each written from its paper, on the same logs and latents: `qrl` and "
    "`hilp` (distances from transitions), `budget` (reachability within budgets, as in RC-aux), `gc-idm` (inverse "
    "dynamics with a goal, without planner). `shuffled` is `trm` on permuted labels, `oracle` plans with the simulator "
    "and the true distance, `random` acts at random. ρ is the rank correlation with the true distance after each of "
    "300 random candidates; seconds are those of labels and training on one thread, operations millions of "
    "multiply-adds of an executed action, encoding apart (those that dynamics compute in numpy are not counted). "
    "Brackets are 95 % intervals over episodes."
)
DIRECTED_NOTE = (
    "Two halls with a gate that opens one way: the way back is another one, and longer; set `report`. `trm-directed` "
    f"is `trm-auto`, which finds the difference in two halves of the episodes. {WAYS}"
)
LABELS_NOTE = (
    "Label sources, heads and peers in many worlds: those of the paper (the first world model of each, 30 episodes of "
    "its evaluation set, its planner, where there are two readings the quicker one), and the suite (set `report`; no "
    "settings of single worlds). All these sets had been published before, in the tables of their worlds. A row has at "
    f"most one head and one planner seed. {WAYS}"
)
WORLDS = TableRows([WorldRun(world.name) for world in worlds()], suite_rows)
DIRECTED = TableRows(directed_runs, directed_rows)
STUDY = Tables(
    name="suite",
    protocol=2,
    tables={
        "worlds": TablePlan(SUITE_NOTE, ("success",), WORLDS, intervals="", legend=False),
        "directed": TablePlan(DIRECTED_NOTE, METRICS, DIRECTED, intervals="", legend=False),
        "labels": TablePlan(LABELS_NOTE, METRICS, TableRows(label_runs, label_rows), intervals="", legend=False),
        "budget-worlds": TablePlan(budget.NOTE, budget.METRICS, budget.ROWS, intervals="", legend=False),
        "verdicts": TablePlan(NOTE, JUDGED, TableRows(VERDICTS, verdict_rows), intervals="", legend=False),
    },
    headings={
        "seconds": ("seconds", 0),
        "operations": ("operations", 2),
        "right": ("right %", 1),
        "wrong": ("wrong %", 1),
        "cannot_tell": ("cannot tell %", 1),
    },
    table_groups={"suite": ("worlds", "directed", "labels", "budget-worlds", "verdicts")},
    require=require_ready,
)
