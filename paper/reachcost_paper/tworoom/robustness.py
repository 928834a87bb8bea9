"""Tables of robustness: the paper's stress tests; our labels on further sets, incomplete logs and fewer rollouts."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import BOUNDS, RowPlan, row_runs, table_row
from reachcost.labels.oracle import near_bottleneck
from reachcost.planning.cem import CEM
from reachcost.results.records import Columns
from reachcost.results.tables import TableRow
from reachcost_paper.rows import bounds
from reachcost_paper.tworoom.labels import PairsRun
from reachcost_paper.tworoom.settings import FRESH_LOGS, KINDS, LAYOUTS, PAPER, REPAIRED, REPLANNING, SEEDS, SET

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


SETS = (SET, *FRESH_LOGS)
SECOND_HEAD = 4072
"""Seed of a second head on every world model; the seed of the first is that of the model."""
BUDGET_SETS = SETS[:3]
METRICS = ("success", "same", "cross", "rho_geo")
BUDGET_METRICS = ("success", "same", "cross", "steps")
SETTINGS = {"limited": "no door", "500": "500 episodes", "1000": "1000 episodes", "frames": "frames only"}
"""Names in rows of the parts of the logs."""
BOTH_KINDS = ("trm", "trm-auto")
"""Labels that are also run on the second kind of world models."""
FEWER = ((128, 5), (75, 5), (37, 5))
"""Candidates and iterations: a fifth, an eighth and a sixteenth of the paper's rollouts."""
PLANNERS = {"CEM": CEM(), "iCEM": CEM.improved(), "MPPI": CEM.mppi(), "from logs": CEM.experienced()}
ALONE = ("iCEM", "from logs")
"""Planners that are also run with costs that are not repaired, because they reach many goals without one."""


def solved() -> list[RowPlan]:
    """All sets together, by number of executed blocks, then one by one."""

    def defaults(**given: Any) -> list[RowPlan]:
        return [RowPlan(kind, "trm-auto", head_seeds=(None, SECOND_HEAD), **given) for kind in KINDS]

    replanning: dict[str, Any] = {"changes": {"planner": REPLANNING}, "setting": "replanning"}
    lines = [RowPlan(KINDS[0], cost, sets=SETS) for cost in ("raw", "trm", "oracle", "random")]
    lines += [*defaults(sets=SETS), RowPlan(KINDS[0], "oracle", sets=SETS, **replanning)]
    lines += defaults(sets=SETS, **replanning)
    for name in SETS:
        lines += defaults(changes={"planner": REPLANNING, "evaluation": name}, setting=f"replanning, {name}")
    return lines


def repaired() -> list[RowPlan]:
    raw, lines = RowPlan(KINDS[0], "raw", seeds=SEEDS[:1], single=True), []
    for kind in KINDS:
        for name in REPAIRED:
            cost, _, part = name.rpartition("-")
            if kind != KINDS[0] and cost not in BOTH_KINDS:
                continue
            line = replace(raw, kind=kind, cost=name, setting=SETTINGS[part], shown=cost)
            lines.append(line)
            if cost == "trm-auto":
                again = {"setting": f"{line.setting}, replanning", "changes": {"planner": REPLANNING}}
                lines.append(replace(line, **again))
        lines.append(replace(raw, kind=kind))
    return [*lines, *bounds([raw])]


def planned(name: str, candidates: int, iterations: int) -> CEM:
    planner = PLANNERS[name]
    elites = candidates if planner.temperature else planner.elites if planner.from_logs else round(candidates / 10)
    size = {"candidates": candidates, "iterations": iterations, "elites": elites}
    return replace(planner, **size, keep_elites=min(planner.keep_elites, elites // 2))


def budget_lines() -> list[RowPlan]:
    """The paper's planner, then all planners with fewer rollouts, then planners with costs that are not repaired."""

    def fewer(kind: str, cost: str, name: str, candidates: int, iterations: int) -> RowPlan:
        changes, setting = {"planner": planned(name, candidates, iterations)}, f"{name} {candidates} x {iterations}"
        return RowPlan(kind, cost, sets=BUDGET_SETS, changes=changes, setting=setting)

    full = RowPlan(KINDS[0], "trm-auto", sets=BUDGET_SETS, setting="CEM 300 x 10")
    return [
        *(replace(full, kind=kind) for kind in KINDS),
        *(fewer(kind, "trm-auto", name, *size) for size in FEWER for name in PLANNERS for kind in KINDS),
        replace(full, cost="raw"),
        *(fewer(KINDS[0], cost, name, *FEWER[-1]) for name in ALONE for cost in ("raw", "trm-shuffled")),
        *(RowPlan(KINDS[0], cost, sets=BUDGET_SETS) for cost in BOUNDS),
    ]
