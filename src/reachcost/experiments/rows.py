"""From recorded runs to lines of a table."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment
from reachcost.experiments.runs import AuditRun, ControlRun, SascRun, outcomes, rankings
from reachcost.experiments.study import Setting
from reachcost.results.stats import hierarchical_bootstrap, mean_std, newcombe, sign_flip_test, wilson
from reachcost.results.tables import SIMULATOR, TableRow

RESAMPLES = 20_000
BOUNDS = (ORACLE, RANDOM)
RANKED = {"rho_geo": "spearman", "rank": "rank", "selected": "selected", "rho_euclid": "spearman_euclidean"}
"""Metrics that SASC measures, and their column."""
PROTOCOL = ("evaluation", "budget")
"""What floor and ceiling share with the lines they bound."""
Values = dict[str, np.ndarray]
"""Metric to values [runs (a member and a head), episodes]."""


@dataclass(frozen=True)
class RowPlan:
    """A line of a table: one cost on some members of a kind."""

    kind: str
    """A kind of world models of the study."""
    cost: str
    """The terminal cost, as the study calls it."""
    paper: Mapping[str, float] | None = None
    """What the paper prints."""
    seeds: tuple[int, ...] | None = None
    """Seeds of the members; by default all of them."""
    head_seeds: tuple[int | None, ...] = (None,)
    """Seeds of the heads on each of them."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the default `Setting`."""
    sets: tuple[str, ...] = ()
    """Evaluation sets whose episodes count together; by default the one that `changes` or the study names."""
    setting: str = ""
    """What the table says about it."""
    shown: str = ""
    """What the table calls the cost, if it is another name."""
    single: bool = False
    """Whether the line stands for its one seed, not for a mean."""

    def parts(self) -> list[RowPlan]:
        """The line on each of its evaluation sets."""
        return [replace(self, sets=(), changes={**self.changes, "evaluation": name}) for name in self.sets] or [self]

    def settings(self, experiment: Experiment) -> list[Setting]:
        """The closed-loop runs behind the line."""
        members = experiment.study.members_of(self.kind, self.seeds)
        return [
            Setting(member, self.cost, head_seed, **self.changes) for member in members for head_seed in self.head_seeds
        ]

    def is_ranked(self, metrics: Sequence[str]) -> bool:
        """Whether SASC measures some of its metrics."""
        return bool(set(RANKED) & set(metrics)) and self.cost != RANDOM and "planner" not in self.changes


def row_runs(experiment: Experiment, lines: Iterable[RowPlan], metrics: Sequence[str] = ("success",)) -> list[Cell]:
    """The runs behind some lines: closed loops, and rankings where metrics need them."""
    runs: list[Cell] = []
    for line in lines:
        for settings in (part.settings(experiment) for part in line.parts()):
            runs += experiment.cells(map(ControlRun, settings))
            if line.is_ranked(metrics):
                runs += experiment.cells(map(SascRun, settings[:: len(line.head_seeds)]))
    return runs


def table_row(experiment: Experiment, line: RowPlan, metrics: Sequence[str]) -> TableRow:
    """Measure a line."""
    parts = [part.settings(experiment) for part in line.parts()]
    values = together([_part_values(experiment, line, settings, metrics) for settings in parts])
    settings, episodes = parts[0], values["success"].size
    extra: dict[str, Any] = {"runs": [experiment.study.run_name(setting) for part in parts for setting in part]}
    if len(settings) > 1:
        extra["per_run"] = {m: [round(float(mean), 4) for mean in v.mean(1)] for m, v in values.items()}
    # Heads on one world model are no independent runs: their mean is one value for each of its episodes.
    members = len(settings) // len(line.head_seeds)
    if len(line.head_seeds) > 1:
        values = {m: v.reshape(members, -1, v.shape[1]).mean(1) if len(v) > members else v for m, v in values.items()}
    if members > 1:
        extra["std"] = {m: round(mean_std(v.mean(1))[1], 4) for m, v in values.items()}
    return TableRow(
        cost=line.shown or line.cost,
        model=SIMULATOR if line.cost in BOUNDS else line.kind,
        n=episodes,
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval=intervals(experiment, values),
        paper=line.paper,
        seed=settings[0].member.seed if line.single else None,
        setting=line.setting,
        extra=extra,
    )


def _part_values(experiment: Experiment, line: RowPlan, settings: Sequence[Setting], metrics: Sequence[str]) -> Values:
    values = measured(experiment, settings)
    if line.is_ranked(metrics):
        values |= ranked(experiment, settings[:: len(line.head_seeds)])
    if "validation_rmse" in metrics and line.cost in experiment.study.heads:
        values |= _errors(experiment, settings)
    return {metric: values[metric] for metric in metrics if metric in values}


def _errors(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    records = [experiment.head_record(one.member, one.cost, one.head_seed, one.evaluation) for one in settings]
    return {"validation_rmse": np.array([[record["validation_rmse"]] for record in records])}


def together(parts: Sequence[Values]) -> Values:
    """The episodes of several evaluation sets, one set after the other."""
    metrics = dict.fromkeys(metric for part in parts for metric in part)
    return {metric: np.concatenate([part[metric] for part in parts if metric in part], axis=1) for metric in metrics}


def row_values(experiment: Experiment, line: RowPlan) -> Values:
    """Outcome metrics of the closed-loop runs behind a line."""
    return together([measured(experiment, part.settings(experiment)) for part in line.parts()])


def measured(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    """Outcome metrics of closed-loop runs on one evaluation set."""
    found = [outcomes(experiment, setting) for setting in settings]
    return {metric: np.stack([one[metric] for one in found]) for metric in found[0]}


def ranked(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    """Ranking metrics of SASC; one head for each member."""
    found = [rankings(experiment, setting) for setting in settings]
    return {metric: np.stack([one[column] for one in found]) for metric, column in RANKED.items() if column in found[0]}


def difference_row(
    experiment: Experiment, line: RowPlan, against: RowPlan, paper: Mapping[str, float] | None = None
) -> TableRow:
    """How much more success one line has than another on the same episodes, and the sign-flip test over members."""
    mine, base = (row_values(experiment, one)["success"] for one in (line, against))
    mine = mine.reshape(len(base), -1, base.shape[1]).mean(1)
    gains = mine - base
    low, high = hierarchical_bootstrap(gains[..., None], shared=True)[:, 0].tolist()
    below, above = (100 * bound for bound in newcombe(base.mean(0) / 100, mine.mean(0) / 100))
    return TableRow(
        cost=f"{line.shown or line.cost} minus {against.shown or against.cost}",
        model=line.kind,
        n=gains.size,
        ours={"success": float(gains.mean()), "p_value": sign_flip_test(gains.mean(1))},
        interval={"success": [min(low, below), max(high, above)]},
        paper=paper,
        seed=line.settings(experiment)[0].member.seed if line.single else None,
        setting=line.setting,
        extra={"per_run": {"success": [round(float(mean), 4) for mean in gains.mean(1)]}},
    )


def audit_cell(experiment: Experiment, line: RowPlan) -> Cell:
    """The audit of the planner of the first member of a line."""
    return experiment.cell(AuditRun(line.settings(experiment)[0]))


def audit_row(experiment: Experiment, line: RowPlan) -> TableRow:
    """The stages of a planner and its verdict, for the first member of a line."""
    setting, run = line.settings(experiment)[0], experiment.recorder.read(audit_cell(experiment, line))
    found = json.loads(run.text("audit.json"))
    measured = {stage["name"]: stage for stage in found["stages"] if stage["value"] is not None}
    return TableRow(
        cost=line.shown or line.cost,
        model=line.kind,
        n=found["episodes"],
        ours={name: stage["value"] for name, stage in measured.items()},
        interval={name: stage["interval"] for name, stage in measured.items() if stage["interval"]},
        paper=None,
        seed=setting.member.seed,
        setting=line.setting or f"verdict: {found['verdict']}",
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
    """A line from the values of each metric [members, episodes]."""
    return TableRow(
        cost=cost,
        model=kind,
        n=max(value.size for value in values.values()),
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval=intervals(experiment, values),
        paper=printed,
        seed=seed,
        setting=setting,
    )


def per_seed(line: RowPlan, seeds: Sequence[int], papers: Sequence[Mapping[str, float]] | None = None) -> list[RowPlan]:
    """One line for each member of a line."""
    return [
        replace(line, seeds=(seed,), paper=papers[number] if papers else None, single=True)
        for number, seed in enumerate(seeds)
    ]


def bounds(lines: Sequence[RowPlan]) -> list[RowPlan]:
    """Floor and ceiling of every protocol among some lines, on the members of the first of them."""
    protocols = {tuple(line.changes.get(key) for key in PROTOCOL): line for line in reversed(lines)}
    return [
        RowPlan(
            lines[0].kind,
            cost,
            seeds=line.seeds,
            changes={key: line.changes[key] for key in PROTOCOL if key in line.changes},
            setting=line.setting if len(protocols) > 1 else "",
            single=line.single,
        )
        for line in reversed(protocols.values())
        for cost in BOUNDS
    ]


def mean_intervals(values: Mapping[str, np.ndarray], shares: Collection[str] = ()) -> dict[str, list[float]]:
    """95 % intervals of the means of metrics [members, episodes]; a share is 0 or 100 in each of them.

    Members, and the episodes they share, are resampled; metrics of one shape together, as their draws are the same. A
    bootstrap of shares is too sure of itself near 0 and 100 %, and has nothing to resample where all agree, so theirs
    reaches at least as far as Wilson's interval of the episodes: members repeat the same ones, and add no trials.
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


def intervals(experiment: Experiment, values: Values) -> dict[str, list[float]]:
    """Intervals of metrics [members, episodes], where there is more than one episode."""
    several = {metric: value for metric, value in values.items() if value.shape[1] > 1}
    return mean_intervals(several, shares(experiment))


def shares(experiment: Experiment) -> set[str]:
    """The metrics that are shares of episodes."""
    study = experiment.study
    return {"success", *study.shares, *study.groups, *study.categories, *study.bins, *study.last_states}
