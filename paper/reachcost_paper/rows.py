"""Rows and runs that several studies of the paper share."""

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.experiments.cells import Cell, RunSpec
from reachcost.experiments.experiment import WEIGHTS, Experiment, HeadRun, SettingRun
from reachcost.experiments.rows import BOUNDS, RowPlan, Values, measured, row_intervals, together
from reachcost.experiments.runs import AuditRun, closed_loop, loop_config
from reachcost.experiments.study import Member, Setting
from reachcost.experiments.tables import TableRows
from reachcost.heads.base import LearnedHead
from reachcost.planning.control import budget_of
from reachcost.results.records import Columns, Run, require_rows
from reachcost.results.stats import hierarchical_bootstrap, mean_std, newcombe, paired_bootstrap
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
    """A row from the values of each metric [members, episodes]."""
    n, ours = max(map(np.size, values.values())), {metric: float(value.mean()) for metric, value in values.items()}
    return TableRow(cost, kind, n, ours, row_intervals(experiment, values), printed, seed, setting)


def row_values(experiment: Experiment, plan: RowPlan) -> Values:
    """Return outcome metrics of the closed-loop runs of a row."""
    return together([measured(experiment, part.settings(experiment)) for part in plan.parts()])


def difference_row(
    experiment: Experiment, plan: RowPlan, base: RowPlan, paper: Mapping[str, float] | None = None
) -> TableRow:
    """Return the difference in success of two rows on the same episodes, with the sign-flip test."""
    mine, theirs = (row_values(experiment, one)["success"] for one in (plan, base))
    mine = mine.reshape(len(theirs), -1, theirs.shape[1]).mean(1)
    gains = mine - theirs
    low, high = hierarchical_bootstrap(gains[..., None], shared=True)[:, 0].tolist()
    below, above = (100 * bound for bound in newcombe(theirs.mean(0) / 100, mine.mean(0) / 100))
    return TableRow(
        cost=f"{plan.shown or plan.cost} minus {base.shown or base.cost}",
        model=plan.kind,
        n=gains.size,
        ours={"success": float(gains.mean()), "p_value": sign_flip_test(gains.mean(1))},
        interval={"success": [min(low, below), max(high, above)]},
        paper=paper,
        seed=plan.settings(experiment)[0].member.seed if plan.single else None,
        setting=plan.setting,
        extra={"per_run": {"success": [round(float(mean), 4) for mean in gains.mean(1)]}},
    )


def sign_flip_test(differences: np.ndarray) -> float:
    """Exact two-sided paired sign-flip p-value over K differences.

    >>> sign_flip_test(np.array([69.17, 71.67, 76.67]))
    0.25
    """
    differences = np.asarray(differences, float)
    signs = np.array(list(product((-1, 1), repeat=len(differences))))
    flipped = np.abs(signs @ differences)
    rounding = 1e-9 * np.abs(differences).sum()
    return float((flipped >= abs(differences.sum()) - rounding).mean())


def per_seed(plan: RowPlan, seeds: Sequence[int], papers: Sequence[Mapping[str, float]] | None = None) -> list[RowPlan]:
    """One row for each member."""
    return [
        replace(plan, seeds=(seed,), paper=papers[number] if papers else None, single=True)
        for number, seed in enumerate(seeds)
    ]


def bounds(plans: Sequence[RowPlan]) -> list[RowPlan]:
    """The references of every evaluation set and budget among some rows, on the members of the first row."""
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


@dataclass(frozen=True)
class ScoredHead(RunSpec):
    """One head of a recipe, scored on held-out logs as a study defines it."""

    kind: ClassVar[str] = "judged"
    further: ClassVar[Mapping[str, int]] = {}
    """Other settings that the rows depend on."""
    plan: str
    """The head plan."""
    member: Member
    seed: int
    """Seed of the head."""

    def needs(self, recording: Experiment) -> list[RunSpec]:
        return [self._head]

    def config(self, recording: Experiment) -> dict[str, Any]:
        weights = recording.sha256(self._head, WEIGHTS)
        return {**recording.inputs(self.member.model), "head_sha256": weights, **self.further}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        return self.score(recording, recording.head(self.member, self.plan, self.seed))

    @abstractmethod
    def score(self, recording: Experiment, head: LearnedHead) -> Columns:
        """The rows of a head."""

    @abstractmethod
    def metrics(self, run: Run) -> tuple[int, dict[str, np.ndarray]]:
        """Number of scored things of the recorded run, and metrics [things], or [1] for one value of the head."""

    @property
    def _head(self) -> HeadRun:
        return HeadRun(self.member, self.plan, self.seed)


def recipe_table(compared: Callable[[Experiment], Experiment], runs: Sequence[ScoredHead]) -> TableRows:
    """A table with a row for every head plan of the study that `compared` returns; runs are ordered by plan."""
    return TableRows(
        lambda experiment: experiment.derive(compared).cells(runs),
        lambda experiment: _recipe_rows(experiment.derive(compared), runs),
    )


def _recipe_rows(experiment: Experiment, runs: Sequence[ScoredHead]) -> list[TableRow]:
    rows = []
    for plan, group in groupby(runs, lambda run: run.plan):
        heads = [*group]
        found = [head.metrics(experiment.read(head)) for head in heads]
        values = {metric: np.stack([metrics[metric] for _, metrics in found]) for metric in found[0][1]}
        means = {metric: value.mean(1) for metric, value in values.items()}
        ours = {metric: float(value.mean()) for metric, value in values.items()}
        interval = {
            metric: paired_bootstrap(value.mean(0)[:, None], resamples=20_000)[:, 0].tolist()
            for metric, value in values.items()
            if value.shape[1] > 1
        }
        per_run = {metric: [round(float(mean), 4) for mean in of_head] for metric, of_head in means.items()}
        extra = {"per_run": per_run, "std": {name: round(mean_std(mean)[1], 4) for name, mean in means.items()}}
        rows.append(TableRow(plan, heads[0].member.model, found[0][0], ours, interval, None, extra=extra))
    return rows


@dataclass(frozen=True)
class EpisodeRun(SettingRun):
    """One episode of an evaluation set, run again; rows are the visited states, with a column per coordinate."""

    kind: ClassVar[str] = "episodes"
    episode: int

    def name(self, recording: Experiment) -> str:
        return f"{super().name(recording)}-episode{self.episode}"

    def config(self, recording: Experiment) -> dict[str, Any]:
        return {**loop_config(recording, self.setting), "episode": self.episode}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        goals = recording.evaluation(self.setting.evaluation)
        runs = closed_loop(recording, self.setting, goals.subset(np.flatnonzero(goals.episodes == self.episode)))
        path = runs.paths[0, 0].reshape(runs.paths.shape[2], -1)
        return {"step": np.arange(len(path)), **{f"state_{i}": path[:, i] for i in range(path.shape[1])}}


def visited(experiment: Experiment, setting: Setting, episode: int) -> np.ndarray:
    """The states of an episode, from its recorded rows [steps + 1, coordinates]."""
    task, goals = experiment.place(setting.evaluation)
    columns = tuple(f"state_{i}" for i in range(int(np.prod(goals.starts.shape[1:]))))
    keys = {"step": range(budget_of(task, goals, setting.budget) + 1)}
    read = require_rows(experiment.read(EpisodeRun(setting, episode)), keys, columns)
    return np.stack([read[name] for name in columns], axis=1)
