"""The paper's stress tests: pairs without the doorway, and layouts that were not used for training."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, row_runs, table_row
from reachcost.labels.oracle import near_bottleneck
from reachcost.results.records import Columns
from reachcost.results.tables import TableRow
from reachcost_paper.rows import bounds
from reachcost_paper.tworoom.labels import PairsRun
from reachcost_paper.tworoom.settings import LAYOUTS, PAPER, SEEDS, SET

COVERAGE_METRICS = ("success", "rank", "rho_geo", "distance", "cross_pairs", "near_pairs", "validation_rmse")
LAYOUT_METRICS = ("success", "rho_geo", "rank", "distance")
MOVED = ("raw", "geodesic-mlp", "geodesic-hybrid", "trm-paper", "trm")


def coverage_lines() -> list[RowPlan]:
    """Heads by the part of the logs of their pairs; one world model."""
    one = RowPlan("lewm", "trm", None, SEEDS[:1], single=True)
    lines = [
        replace(one, cost=f"geodesic-{name}", shown="geodesic-mlp", setting=name, paper=printed)
        for name, printed in PAPER["coverage"].items()
    ]
    for cost in ("trm-paper", "trm"):
        lines.append(replace(one, cost=f"{cost}-limited", shown=cost, setting="limited, logged times"))
        lines.append(replace(one, cost=cost, setting="all logs, logged times"))
    return [*lines, *bounds([one])]


@dataclass(frozen=True)
class CoverageRun(PairsRun):
    """Shares of a head's training pairs that cross the wall, and that come near the door; one row."""

    kind: ClassVar[str] = "coverage"

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        task, sampled = recording.task, self.pairs(recording)
        states = sampled.logs.columns["state"]
        first, second = (states[rows.numpy()] for rows in (sampled.train.first, sampled.train.second))
        crosses, near = task.groups(first, second)["cross wall"], near_bottleneck(task, first, second)
        return {"cross_pairs": 100 * crosses.mean(keepdims=True), "near_pairs": 100 * near.mean(keepdims=True)}


def coverage_runs(experiment: Experiment) -> list[Cell]:
    lines = coverage_lines()
    pairs = [CoverageRun(line.cost) for line in lines if line.cost in experiment.study.heads]
    return [*row_runs(experiment, lines, COVERAGE_METRICS), *experiment.cells(pairs)]


def coverage_rows(experiment: Experiment) -> list[TableRow]:
    rows = []
    for line in coverage_lines():
        row = table_row(experiment, line, COVERAGE_METRICS)
        if line.cost in experiment.study.heads:
            shares = experiment.read(CoverageRun(line.cost)).table()
            row = replace(row, ours={**row.ours, **{name: shares[name][0].as_py() for name in shares.column_names}})
        rows.append(row)
    return rows


def layout_lines() -> list[RowPlan]:
    """Costs of the public layout in other layouts: new starts and goals, the same world model and heads."""
    lines: list[RowPlan] = []
    for evaluation in (SET, *LAYOUTS):
        setting = "public layout" if evaluation == SET else evaluation.replace("-", " ")
        changes, printed = {} if evaluation == SET else {"evaluation": evaluation}, PAPER["layout"].get(setting, {})
        one = RowPlan("lewm", "raw", None, SEEDS[:1], changes=changes, setting=setting, single=True)
        lines += [
            replace(one, cost=cost, paper=printed.get(cost), shown=cost.replace("geodesic-hybrid", "hybrid"))
            for cost in MOVED
        ]
        lines += [replace(bound, setting=setting) for bound in bounds([one])]
    return lines
