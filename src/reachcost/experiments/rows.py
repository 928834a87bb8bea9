"""Rows of a table, made from recorded runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reachcost.errors import ReachcostError, did_you_mean
from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment
from reachcost.experiments.runs import ControlRun, SascRun, outcome_names, outcomes, rankings
from reachcost.experiments.study import Setting, Study
from reachcost.results.stats import hierarchical_bootstrap, mean_std, wilson
from reachcost.results.tables import SIMULATOR, TableRow

RESAMPLES = 20_000
BOUNDS = (ORACLE, RANDOM)
RANKED = {"rho_geo": "spearman", "rank": "rank", "selected": "selected", "rho_euclid": "spearman_euclidean"}
"""Columns of rankings, by the metric that they are in tables."""
Values = dict[str, np.ndarray]
"""Metric to values [runs (a member and a head), episodes]."""


@dataclass(frozen=True)
class RowPlan:
    """The declaration of a row: one cost on some members of a kind."""

    kind: str
    """A kind of world models of the study."""
    cost: str
    """Name of the terminal cost in the study."""
    paper: Mapping[str, float] | None = None
    """The paper's values."""
    seeds: tuple[int, ...] | None = None
    """Seeds of the members; by default all of them."""
    head_seeds: tuple[int | None, ...] = (None,)
    """Seeds of the heads on each member."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Differences from the default `Setting`."""
    sets: tuple[str, ...] = ()
    """Evaluation sets whose episodes count together; by default the one that `changes` or the study names."""
    setting: str = ""
    shown: str = ""
    """Another name of the cost in the table."""
    single: bool = False
    """Whether the row shows its only seed, not a mean."""

    def parts(self) -> list[RowPlan]:
        """Return the plan for each of its evaluation sets."""
        return [replace(self, sets=(), changes={**self.changes, "evaluation": name}) for name in self.sets] or [self]

    def settings(self, experiment: Experiment) -> list[Setting]:
        """Return the closed-loop runs of the row."""
        members = experiment.study.members_of(self.kind, self.seeds)
        return [
            Setting(member, self.cost, head_seed, **self.changes) for member in members for head_seed in self.head_seeds
        ]

    def ranked(self, experiment: Experiment, metrics: Sequence[str]) -> list[Setting]:
        """Return the rankings of the row, if metrics need them; one head for each member."""
        if not {*RANKED} & {*metrics} or self.cost == RANDOM or "planner" in self.changes:
            return []
        return self.settings(experiment)[:: len(self.head_seeds)]


def row_runs(experiment: Experiment, plans: Iterable[RowPlan], metrics: Sequence[str] = ("success",)) -> list[Cell]:
    """Return the runs of some rows: closed loops, and rankings if metrics need them."""
    runs: list[Cell] = []
    for part in (part for plan in plans for part in plan.parts()):
        runs += experiment.cells(map(ControlRun, part.settings(experiment)))
        runs += experiment.cells(map(SascRun, part.ranked(experiment, metrics)))
    return runs


def require_metrics(study: Study, metrics: Sequence[str]) -> None:
    """Raise an error for a metric that no run of the study has."""
    known = (*outcome_names(study), *RANKED, "validation_rmse")
    if unknown := next((metric for metric in metrics if metric not in known), None):
        raise ReachcostError(f"the study {study.name} has no metric {unknown!r}: {did_you_mean(unknown, known)}")


def table_row(experiment: Experiment, plan: RowPlan, metrics: Sequence[str]) -> TableRow:
    """Return the row of a plan."""
    parts = [part.settings(experiment) for part in plan.parts()]
    found = together([_part_values(experiment, part, metrics) for part in plan.parts()])
    values = {metric: found[metric] for metric in metrics if metric in found}
    settings, episodes = parts[0], found["success"].size
    extra: dict[str, Any] = {"runs": [experiment.study.run_name(setting) for part in parts for setting in part]}
    if len(settings) > 1:
        extra["per_run"] = {m: [round(float(mean), 4) for mean in v.mean(1)] for m, v in values.items()}
    # Heads on one world model are not independent runs: their mean is one value for each of its episodes.
    members = len(settings) // len(plan.head_seeds)
    if len(plan.head_seeds) > 1:
        values = {m: v.reshape(members, -1, v.shape[1]).mean(1) if len(v) > members else v for m, v in values.items()}
    if members > 1:
        extra["std"] = {m: round(mean_std(v.mean(1))[1], 4) for m, v in values.items()}
    return TableRow(
        cost=plan.shown or plan.cost,
        model=SIMULATOR if plan.cost in BOUNDS else plan.kind,
        n=episodes,
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval=row_intervals(experiment, values),
        paper=plan.paper,
        seed=settings[0].member.seed if plan.single else None,
        setting=plan.setting,
        extra=extra,
    )


def _part_values(experiment: Experiment, plan: RowPlan, metrics: Sequence[str]) -> Values:
    settings = plan.settings(experiment)
    values = measured(experiment, settings)
    if rankings := plan.ranked(experiment, metrics):
        values |= ranked(experiment, rankings)
    if "validation_rmse" in metrics and plan.cost in experiment.study.heads:
        records = [experiment.head_record(one.member, one.cost, one.head_seed, one.evaluation) for one in settings]
        values["validation_rmse"] = np.array([[record["validation_rmse"]] for record in records])
    return values


def together(parts: Sequence[Values]) -> Values:
    """Join the episodes of several evaluation sets."""
    metrics = dict.fromkeys(metric for part in parts for metric in part)
    return {metric: np.concatenate([part[metric] for part in parts if metric in part], axis=1) for metric in metrics}


def measured(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    """Return outcome metrics of closed-loop runs on one evaluation set."""
    found = [outcomes(experiment, setting) for setting in settings]
    return {metric: np.stack([one[metric] for one in found]) for metric in found[0]}


def ranked(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    """Return metrics of rankings."""
    found = [rankings(experiment, setting) for setting in settings]
    return {metric: np.stack([one[column] for one in found]) for metric, column in RANKED.items() if column in found[0]}


def mean_intervals(values: Mapping[str, np.ndarray], shares: Collection[str] = ()) -> dict[str, list[float]]:
    """Return 95 % intervals of the means of metrics [members, episodes]; a share is 0 or 100 in each of them.

    Members, and the episodes they share, are resampled; metrics of one shape together, as their draws are the same.
    Intervals of shares are at least as wide as Wilson's interval of the episodes: a bootstrap is too narrow near 0 and
    100 %. Members repeat the same episodes, and add no trials.
    """
    found = {}
    for shape in dict.fromkeys(value.shape for value in values.values()):
        alike = {metric: value for metric, value in values.items() if value.shape == shape}
        lows, highs = hierarchical_bootstrap(np.stack([*alike.values()], axis=2), resamples=RESAMPLES, shared=True)
        for (metric, value), low, high in zip(alike.items(), lows.tolist(), highs.tolist(), strict=True):
            found[metric] = [low, high]
            if metric in shares:
                below, above = (100 * bound for bound in wilson(value.mean() / 100 * shape[1], shape[1]))
                found[metric] = [min(low, below), max(high, above)]
    return {metric: found[metric] for metric in values}


def row_intervals(experiment: Experiment, values: Values) -> dict[str, list[float]]:
    """Return intervals of the metrics of a row; the study names those that are shares."""
    study, several = experiment.study, {metric: value for metric, value in values.items() if value.shape[1] > 1}
    shares = {"success", *study.shares, *study.groups, *study.categories, *study.bins, *study.last_states}
    return mean_intervals(several, shares)
