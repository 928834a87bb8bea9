"""Lines of the paper's stress tests: doorway coverage of the pairs, and layouts that nothing was trained on."""

from __future__ import annotations

from dataclasses import replace

from reachcost.audits.doorway import near_door
from reachcost.experiments import tworoom_audits_paper as paper
from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_audits import Rows, lewm
from reachcost.experiments.tworoom_rows import SEEDS, Line, bounds, table_row
from reachcost.experiments.tworoom_settings import LAYOUTS, SASC_GROUPS
from reachcost.results.tables import TableRow

COVERAGE_METRICS = ("success", "rank", "rho_geo", "distance", "cross_pairs", "near_pairs", "validation_rmse")
LAYOUT_METRICS = ("success", "rho_geo", "rank", "distance")


def coverage_rows(experiment: Experiment) -> Rows:
    """Heads by the part of the logs that their pairs are of; one world model."""
    one = Line("lewm", "trm", None, SEEDS[:1], group="coverage", single=True)
    lines = [
        replace(one, cost=f"geodesic-{name}", shown="geodesic-mlp", setting=name, paper=printed)
        for name, printed in paper.COVERAGE.items()
    ]
    for cost in ("trm-paper", "trm"):
        lines.append(replace(one, cost=f"{cost}-limited", shown=cost, setting="limited, logged times"))
        lines.append(replace(one, cost=cost, group="baselines", setting="all logs, logged times"))
    lines += bounds([replace(one, setting="")])
    return [_with_pairs(experiment, line, table_row(experiment, line, COVERAGE_METRICS)) for line in lines]


def _with_pairs(experiment: Experiment, line: Line, row: TableRow) -> TableRow:
    """The line with what its pairs are like."""
    if line.cost not in experiment.heads:
        return row
    drawn = experiment.pairs(lewm(SEEDS[0]), experiment.heads[line.cost], SEEDS[0])
    layout, states = experiment.task.layout, drawn.logs.columns["state"]
    first, second = (states[rows.numpy()] for rows in (drawn.train.first, drawn.train.second))
    shares = {
        "cross_pairs": 100 * float((layout.room(first) != layout.room(second)).mean()),
        "near_pairs": 100 * float(near_door(layout, first, second).mean()),
    }
    return replace(row, ours={**row.ours, **shares})


def layout_rows(experiment: Experiment) -> Rows:
    """Costs of the public layout in other worlds: starts and goals drawn anew, world model and heads untouched."""
    lines = []
    for evaluation in ("high-distance", *LAYOUTS):
        setting = "public layout" if evaluation == "high-distance" else evaluation.replace("-", " ")
        here = [
            Line(
                "lewm",
                cost,
                paper.LAYOUT.get((setting, cost)),
                SEEDS[:1],
                changes={"evaluation": evaluation},
                setting=setting,
                shown=cost.replace("geodesic-hybrid", "hybrid"),
                group="layout",
                single=True,
            )
            for cost in SASC_GROUPS["layout"]
        ]
        lines += [*here, *(replace(bound, setting=setting) for bound in bounds(here))]
    return [table_row(experiment, line, LAYOUT_METRICS) for line in lines]
