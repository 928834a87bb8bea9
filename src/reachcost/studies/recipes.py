"""Recipes of a study, compared on held-out logs alone: no closed loop and no simulator chooses a head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from reachcost.heads.base import LearnedHead
from reachcost.results.records import Columns, Run
from reachcost.results.stats import mean_std, paired_bootstrap
from reachcost.results.tables import TableRow
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
    rows = []
    for plan in experiment.study.heads:
        found = []
        for name, (member, seed) in heads.items():

            def compute(_: Path, plan: str = plan, member: Member = member, seed: int = seed) -> Columns:
                return judge(member, experiment.head(member, plan, seed))

            weights = experiment.head_run(member, plan, seed).sha256[WEIGHTS]
            inputs = {**experiment.inputs(member.model), "head_sha256": weights, **config}
            found.append(read(experiment.run("judged", name.format(plan), inputs, compute)))
        count, metrics = found[0]
        values = {metric: np.stack([one[metric] for _, one in found]) for metric in metrics}
        of_each = {metric: value.mean(0) for metric, value in values.items() if value.shape[1] > 1}
        of_head = {metric: value.mean(1) for metric, value in values.items()}
        rows.append(
            TableRow(
                cost=plan,
                model=next(iter(heads.values()))[0].model,
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
        )
    return rows
