"""Lines of the paper's tables about the probe's rowspace, what a head makes of it, and a head's features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from reachcost.costs.latent import HeadCost
from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import WEIGHTS, Experiment, HeadRun
from reachcost.experiments.rows import RowPlan, bounds, metric_row, row_runs, table_row
from reachcost.experiments.study import Member
from reachcost.experiments.tables import TableRows
from reachcost.heads.regression import PairHead
from reachcost.results.ranking import compare_rankings
from reachcost.results.records import Columns, require_rows
from reachcost.results.tables import TableRow
from reachcost_paper.audits.features import FeaturesOnly, swap_consistency
from reachcost_paper.audits.subspace import attribute, rowspace_share
from reachcost_paper.tworoom import paper_audits as paper
from reachcost_paper.tworoom.control import CONTROLLED
from reachcost_paper.tworoom.settings import FAR_SET, LEWM, NEAR_SET, SEEDS

Parts = dict[str, dict[str, np.ndarray]]
"""Metrics [episodes] by part."""
PLACES = {None: "high-distance set", NEAR_SET: "near set", FAR_SET: "far set"}
POOL = {"candidate_seed": 123}


def subspace_lines() -> list[RowPlan]:
    """Planning with the rowspace or the residual alone."""
    lines, raws = [], []
    for name, label in CONTROLLED.items():
        setting = ", ".join(filter(None, ("distance-controlled set", label)))
        changes = {"changes": {"evaluation": name}, "setting": setting}
        lines += [
            RowPlan("lewm", cost, {"success": printed[number]}, (seed,), single=True, **changes)
            for cost, printed in paper.SUBSPACE.items()
            for number, seed in enumerate(SEEDS)
        ]
        raws.append(RowPlan("lewm", "raw", **changes))
    far = [RowPlan("lewm", cost, setting="high-distance set") for cost in paper.SUBSPACE]
    return [*lines, *far, *bounds([*raws, far[0]])]


@dataclass(frozen=True)
class ShareRun(RunSpec):
    """Share of the squared latent difference that lies in the probe's rowspace, in percent; rows are episodes."""

    kind: ClassVar[str] = "subspace"
    member: Member
    evaluation: str | None

    def name(self, recording: Experiment) -> str:
        """Member and evaluation set."""
        return f"{self.member.label}-{self.evaluation or recording.study.evaluation}"

    def config(self, recording: Experiment) -> dict[str, Any]:
        """Model and evaluation set."""
        goals = recording.evaluation(self.evaluation)
        return {**recording.inputs(self.member.model), **goals.record}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Measure the shared pools."""
        terminal, goal, _distances = recording.pool(self.member, self.evaluation)
        share = rowspace_share(recording.probe(self.member.model), terminal, goal)
        return {"episode": recording.evaluation(self.evaluation).episodes, "mse_share": 100 * share.numpy()}


SHARES = [ShareRun(member, name) for member in LEWM for name in PLACES]


def subspace_rows(experiment: Experiment) -> list[TableRow]:
    """Planning with parts of the latent, and how little of the distance lies in the rowspace."""
    rows = [table_row(experiment, line, ("success",)) for line in subspace_lines()]
    return [*rows, *(_share_row(experiment, run) for run in SHARES)]


def _share_row(experiment: Experiment, run: ShareRun) -> TableRow:
    printed = {"mse_share": 100 * paper.MSE_SHARE[LEWM.index(run.member)]} if run.evaluation else None
    keys = {"episode": experiment.evaluation(run.evaluation).episodes.tolist()}
    values = {"mse_share": require_rows(experiment.read(run), keys, ("mse_share",))["mse_share"][None]}
    setting = f"share of latent MSE, {PLACES[run.evaluation]}"
    return metric_row(experiment, "lewm", "rowspace", run.member.seed, values, printed, setting)


@dataclass(frozen=True)
class PartsRun(RunSpec):
    """Metrics [episodes] of several parts of a head on the shared pools; rows are parts and episodes."""

    member: Member
    cost: str = "trm-paper"
    """The head."""

    def name(self, recording: Experiment) -> str:
        """Member and head."""
        return f"{self.member.label}-{self.cost}"

    def needs(self, recording: Experiment) -> list[RunSpec]:
        """The head."""
        return [HeadRun(self.member, self.cost)]

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The head and the pools."""
        weights = recording.sha256(HeadRun(self.member, self.cost), WEIGHTS)
        config = {**recording.inputs(self.member.model), "cost": self.cost, "head_sha256": weights}
        return config | {**recording.evaluation().record, **POOL}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Measure every part."""
        found, episodes = self.measure(recording), recording.evaluation().episodes
        metrics = dict.fromkeys(metric for values in found.values() for metric in values)
        columns: dict[str, Any] = {
            "part": np.repeat(list(found), len(episodes)),
            "episode": np.tile(episodes, len(found)),
        }
        for metric in metrics:
            missing = np.zeros(len(episodes))
            columns[metric] = np.concatenate([values.get(metric, missing) for values in found.values()])
        return columns

    @abstractmethod
    def measure(self, recording: Experiment) -> Parts:
        """Metrics of every part."""

    def parts(self, recording: Experiment) -> Parts:
        """Metrics of every part, from the recorded rows."""
        run, episodes = recording.read(self), recording.evaluation().episodes
        names = run.table().column_names
        parts = list(dict.fromkeys(run.table()["part"].to_pylist()))
        read = require_rows(run, {"part": parts, "episode": episodes.tolist()}, names[2:])
        return {part: {name: read[name][number] for name in names[2:]} for number, part in enumerate(parts)}


@dataclass(frozen=True)
class AttributionRun(PartsRun):
    """What a head makes of the projected differences, and where its gradient points."""

    kind: ClassVar[str] = "attribution"

    def measure(self, recording: Experiment) -> Parts:
        """Rankings by each difference, and the share of the gradient."""
        terminal, goal, distances = recording.pool(self.member)
        head = recording.head(self.member, self.cost)
        found = attribute(head, recording.probe(self.member.model), terminal, goal)
        scores = {"full": found.full, "rowspace": found.rowspace, "residual": found.residual}
        ranked = compare_rankings({name: cost.numpy() for name, cost in scores.items()}, distances["oracle"])
        values = {name: {"rho_geo": r.spearman, "rank": r.oracle_best_rank} for name, r in ranked.items()}
        values["full"]["gradient_share"] = 100 * found.gradient_share.numpy()
        return values


@dataclass(frozen=True)
class FeaturesRun(PartsRun):
    """The paper's head with some of its features, and in both orders."""

    kind: ClassVar[str] = "features"

    def measure(self, recording: Experiment) -> Parts:
        """Rankings by some features, and the difference of both orders."""
        terminal, goal, distances = recording.pool(self.member)
        head = cast(PairHead, recording.head(self.member, self.cost))
        costs = {
            "absolute difference only": FeaturesOnly(head, ("absolute",)),
            "both differences only": FeaturesOnly(head, ("difference", "absolute")),
            "all features": HeadCost(head),
            "both orders averaged": HeadCost(head.symmetrised()),
        }
        scores = {name: cost(terminal, goal).numpy() for name, cost in costs.items()}
        ranked = compare_rankings(scores, distances["oracle"])
        values = {name: {"rho_geo": r.spearman, "rank": r.oracle_best_rank} for name, r in ranked.items()}
        swap = swap_consistency(head, terminal, goal)
        values["all features"]["swap_steps"] = swap.difference.numpy()
        values["all features"]["swap_percent"] = 100 * swap.difference.numpy() / swap.magnitude.mean().item()
        return values


ATTRIBUTIONS = [AttributionRun(member, cost) for cost in ("trm-paper", "trm") for member in LEWM]
FEATURES = [FeaturesRun(member) for member in LEWM]


def attribution_rows(experiment: Experiment) -> list[TableRow]:
    """What a head makes of the projected differences, and where its gradient points."""
    rows = []
    for run in ATTRIBUTIONS:
        for name, found in run.parts(experiment).items():
            shown = ("rho_geo", "rank", "gradient_share") if name == "full" else ("rho_geo", "rank")
            printed = paper.ATTRIBUTION[LEWM.index(run.member)][name] if run.cost == "trm-paper" else None
            values, seed = {metric: found[metric][None] for metric in shown}, run.member.seed
            rows.append(metric_row(experiment, "lewm", run.cost, seed, values, printed, f"{name} difference"))
    return rows


def features_rows(experiment: Experiment) -> list[TableRow]:
    """The paper's head with some of its features, and in both orders."""
    rows = []
    for number, run in enumerate(FEATURES):
        for place, (name, found) in enumerate(run.parts(experiment).items()):
            whole = name == "all features"
            shown = ("rho_geo", "rank", "swap_steps", "swap_percent") if whole else ("rho_geo", "rank")
            printed = {**paper.FEATURES[place][number], **(paper.SWAP[number] if whole else {})}
            values = {metric: found[metric][None] for metric in shown}
            rows.append(metric_row(experiment, "lewm", run.cost, run.member.seed, values, printed, name))
    return rows


SUBSPACE = TableRows(
    lambda experiment: [*row_runs(experiment, subspace_lines()), *experiment.cells(SHARES)], subspace_rows
)
