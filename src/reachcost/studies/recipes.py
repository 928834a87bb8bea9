"""Recipes of a study, compared on held-out logs alone: no closed loop and no simulator chooses a head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from reachcost.heads.base import LearnedHead
from reachcost.results.records import Columns, Run
from reachcost.results.stats import mean_std, paired_bootstrap
from reachcost.results.tables import TableRow
from reachcost.studies.cells.waiting import every, row_of_runs
from reachcost.studies.experiment import WEIGHTS, Experiment
from reachcost.studies.study import Member


def recipe_rows(
    experiment: Experiment,
    heads: Mapping[str, tuple[Member, int]],
    judge: Callable[[Member, LearnedHead], Columns],
    read: Callable[[Run], tuple[int, dict[str, np.ndarray]]],
    **config: int,
) -> list[TableRow]:
    """Train every head plan of the study, judge it, and make a line of it.

    Args:
        experiment: Of a study whose heads are those to compare.
        heads: The member and seed of every head of a plan, by the name of its run, where `{}` is the plan.
        judge: Measures one head; its rows are recorded.
        read: From those rows the number of things judged, and metrics: one number, or one of each thing.
        config: What else the rows depend on.
    """

    @row_of_runs
    def row(plan: str) -> TableRow:
        return _row(plan, next(iter(heads.values()))[0].model, every(lambda name: judged(plan, name), heads))

    def judged(plan: str, name: str) -> tuple[int, dict[str, np.ndarray]]:
        member, seed = heads[name]

        def compute(_: Path) -> Columns:
            return judge(member, experiment.head(member, plan, seed))

        weights = experiment.head_run(member, plan, seed).sha256[WEIGHTS]
        inputs = {**experiment.inputs(member.model), "head_sha256": weights, **config}
        return read(experiment.run("judged", name.format(plan), inputs, compute))

    return [row(plan) for plan in experiment.study.heads]


def _row(plan: str, model: str, found: Sequence[tuple[int, dict[str, np.ndarray]]]) -> TableRow:
    """The line of a plan, from the number of things judged and the metrics of each of its heads."""
    count, metrics = found[0]
    values = {metric: np.stack([one[metric] for _, one in found]) for metric in metrics}
    of_each = {metric: value.mean(0) for metric, value in values.items() if value.shape[1] > 1}
    of_head = {metric: value.mean(1) for metric, value in values.items()}
    return TableRow(
        cost=plan,
        model=model,
        n=count,
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval={
            metric: paired_bootstrap(value[:, None], resamples=20_000)[:, 0].tolist()
            for metric, value in of_each.items()
        },
        paper=None,
        extra={
            "per_run": {m: [round(float(mean), 4) for mean in means] for m, means in of_head.items()},
            "std": {m: round(mean_std(means)[1], 4) for m, means in of_head.items()},
        },
    )
