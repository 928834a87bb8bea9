"""Recipes of a study, compared on held-out logs alone: no closed loop and no simulator chooses a head."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import WEIGHTS, Experiment, HeadRun
from reachcost.experiments.study import Member
from reachcost.heads.base import LearnedHead
from reachcost.results.records import Columns, Run
from reachcost.results.stats import mean_std, paired_bootstrap
from reachcost.results.tables import TableRow


@dataclass(frozen=True)
class JudgedRun(RunSpec):
    """One head of a recipe, measured on held-out logs; a study says how."""

    kind: ClassVar[str] = "judged"
    further: ClassVar[Mapping[str, int]] = {}
    """What else the rows depend on."""
    plan: str
    """The head plan."""
    member: Member
    seed: int
    """Of the head."""

    def needs(self, recording: Experiment) -> list[RunSpec]:
        """The head."""
        return [self._head]

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The head."""
        weights = recording.sha256(self._head, WEIGHTS)
        return {**recording.inputs(self.member.model), "head_sha256": weights, **self.further}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Measure the head."""
        return self.judge(recording, recording.head(self.member, self.plan, self.seed))

    @abstractmethod
    def judge(self, recording: Experiment, head: LearnedHead) -> Columns:
        """Measure a head; returns the rows."""

    @property
    def _head(self) -> HeadRun:
        return HeadRun(self.member, self.plan, self.seed)


def recipe_rows(
    experiment: Experiment,
    runs: Sequence[JudgedRun],
    read: Callable[[Run], tuple[int, dict[str, np.ndarray]]],
) -> list[TableRow]:
    """A row for every head plan.

    Args:
        experiment: Of a study whose heads are those to compare.
        runs: Every head of every plan, measured.
        read: From the rows of a run the number of things judged, and metrics: one number, or one of each thing.
    """
    plans: dict[str, list[JudgedRun]] = {}
    for run in runs:
        plans.setdefault(run.plan, []).append(run)
    return [
        _row(plan, heads[0].member.model, [read(experiment.read(head)) for head in heads])
        for plan, heads in plans.items()
    ]


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
