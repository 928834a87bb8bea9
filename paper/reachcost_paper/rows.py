"""Rows that several tables of the paper have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import BOUNDS, RowPlan, Values, row_intervals
from reachcost.experiments.runs import AuditRun
from reachcost.results.tables import TableRow

PROTOCOL = ("evaluation", "budget")
"""Settings that references share with the rows that they bound."""


def audit_cell(experiment: Experiment, plan: RowPlan) -> Cell:
    """Return the audit of the planner of the first member of a row."""
    return experiment.cell(AuditRun(plan.settings(experiment)[0]))


def audit_row(experiment: Experiment, plan: RowPlan) -> TableRow:
    """Return the stages and the verdict of the audit of `audit_cell`."""
    setting, run = plan.settings(experiment)[0], audit_cell(experiment, plan).read()
    found = json.loads(run.text("audit.json"))
    stages = {stage["name"]: stage for stage in found["stages"] if stage["value"] is not None}
    return TableRow(
        cost=plan.shown or plan.cost,
        model=plan.kind,
        n=found["episodes"],
        ours={name: stage["value"] for name, stage in stages.items()},
        interval={name: stage["interval"] for name, stage in stages.items() if stage["interval"]},
        paper=None,
        seed=setting.member.seed,
        setting=plan.setting or f"verdict: {found['verdict']}",
        extra={"verdict": found["verdict"], "outcomes": {stage["name"]: stage["outcome"] for stage in found["stages"]}},
    )


def metric_row(
    experiment: Experiment,
    kind: str,
    cost: str,
    seed: int | None,
    values: Values,
    printed: Mapping[str, float] | None,
    setting: str = "",
) -> TableRow:
    """Return a row from the values of each metric [members, episodes]."""
    return TableRow(
        cost=cost,
        model=kind,
        n=max(value.size for value in values.values()),
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval=row_intervals(experiment, values),
        paper=printed,
        seed=seed,
        setting=setting,
    )


def per_seed(plan: RowPlan, seeds: Sequence[int], papers: Sequence[Mapping[str, float]] | None = None) -> list[RowPlan]:
    """Return one row for each member."""
    return [
        replace(plan, seeds=(seed,), paper=papers[number] if papers else None, single=True)
        for number, seed in enumerate(seeds)
    ]


def bounds(plans: Sequence[RowPlan]) -> list[RowPlan]:
    """Return the references of every evaluation set and budget among some rows, on the members of the first row."""
    protocols = {tuple(plan.changes.get(key) for key in PROTOCOL): plan for plan in reversed(plans)}
    return [
        RowPlan(
            plans[0].kind,
            cost,
            seeds=plan.seeds,
            changes={key: plan.changes[key] for key in PROTOCOL if key in plan.changes},
            setting=plan.setting if len(protocols) > 1 else "",
            single=plan.single,
        )
        for plan in reversed(protocols.values())
        for cost in BOUNDS
    ]
