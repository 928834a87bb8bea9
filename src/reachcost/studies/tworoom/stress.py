"""Lines of the paper's stress tests: doorway coverage of the pairs, and layouts that nothing was trained on."""

from __future__ import annotations

from dataclasses import replace

from reachcost.fitting.coverage import near_bottleneck
from reachcost.results.records import Columns
from reachcost.results.tables import TableRow
from reachcost.studies.cells.waiting import row_of_runs
from reachcost.studies.experiment import Experiment
from reachcost.studies.lines import Line, bounds, table_row
from reachcost.studies.tworoom import paper_audits as paper
from reachcost.studies.tworoom.settings import LAYOUTS, LEWM, SEEDS, SET

COVERAGE_METRICS = ("success", "rank", "rho_geo", "distance", "cross_pairs", "near_pairs", "validation_rmse")
LAYOUT_METRICS = ("success", "rho_geo", "rank", "distance")
MOVED = ("raw", "geodesic-mlp", "geodesic-hybrid", "trm-paper", "trm")


def coverage_rows(experiment: Experiment) -> list[TableRow]:
    """Heads by the part of the logs that their pairs are of; one world model."""
    one = Line("lewm", "trm", None, SEEDS[:1], single=True)
    lines = [
        replace(one, cost=f"geodesic-{name}", shown="geodesic-mlp", setting=name, paper=printed)
        for name, printed in paper.COVERAGE.items()
    ]
    for cost in ("trm-paper", "trm"):
        lines.append(replace(one, cost=f"{cost}-limited", shown=cost, setting="limited, logged times"))
        lines.append(replace(one, cost=cost, setting="all logs, logged times"))
    lines += bounds([one])
    return [_with_pairs(experiment, line, table_row(experiment, line, COVERAGE_METRICS)) for line in lines]


@row_of_runs
def _with_pairs(experiment: Experiment, line: Line, row: TableRow) -> TableRow:
    """The line with what its pairs are like."""
    if line.cost not in experiment.study.heads:
        return row
    plan, member, task = experiment.study.heads[line.cost], LEWM[0], experiment.task

    def compute(_: object) -> Columns:
        drawn = experiment.pairs(member, plan, member.seed)
        states = drawn.logs.columns["state"]
        first, second = (states[rows.numpy()] for rows in (drawn.train.first, drawn.train.second))
        crosses, near = task.groups(first, second)["cross wall"], near_bottleneck(task, first, second)
        return {"cross_pairs": 100 * crosses.mean(keepdims=True), "near_pairs": 100 * near.mean(keepdims=True)}

    config = {**experiment.inputs(member.model), "head": plan, "pair_seed": member.seed}
    shares = experiment.run("coverage", f"{member.label}-{line.cost}", config, compute).table()
    return replace(row, ours={**row.ours, **{name: shares[name][0].as_py() for name in shares.column_names}})


def layout_rows(experiment: Experiment) -> list[TableRow]:
    """Costs of the public layout in other worlds: starts and goals drawn anew, world model and heads untouched."""
    lines = []
    for evaluation in (SET, *LAYOUTS):
        setting = "public layout" if evaluation == SET else evaluation.replace("-", " ")
        here = [
            Line(
                "lewm",
                cost,
                paper.LAYOUT.get((setting, cost)),
                SEEDS[:1],
                changes={} if evaluation == SET else {"evaluation": evaluation},
                setting=setting,
                shown=cost.replace("geodesic-hybrid", "hybrid"),
                single=True,
            )
            for cost in MOVED
        ]
        lines += [*here, *(replace(bound, setting=setting) for bound in bounds(here))]
    return [table_row(experiment, line, LAYOUT_METRICS) for line in lines]
