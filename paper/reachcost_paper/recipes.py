"""Recipes of a study, compared on held-out logs alone: no head is chosen by success or by a simulator."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import WEIGHTS, Experiment, HeadRun
from reachcost.experiments.study import Member
from reachcost.experiments.tables import TableRows
from reachcost.heads.base import LearnedHead
from reachcost.results.records import Columns, Run
from reachcost.results.stats import mean_std, paired_bootstrap
from reachcost.results.tables import TableRow


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
        lambda experiment: _rows(experiment.derive(compared), runs),
    )


def _rows(experiment: Experiment, runs: Sequence[ScoredHead]) -> list[TableRow]:
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
