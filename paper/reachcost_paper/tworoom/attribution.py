"""What the paper's head uses: parts of the latent difference, some of its features, and the order of its inputs."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from reachcost.costs.latent import HeadCost, SubspaceCost
from reachcost.data.probe import LinearProbe
from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import WEIGHTS, Experiment, HeadRun
from reachcost.experiments.study import Member
from reachcost.heads.kinds import PairHead, pair_features
from reachcost.protocols import Head
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import compare_rankings
from reachcost.results.tables import TableRow
from reachcost_paper.rows import metric_row
from reachcost_paper.tworoom.settings import LEWM, PAPER, symmetrised

BLOCKS = ("z", "goal", "difference", "absolute")
"""The feature blocks [z, g, z - g, |z - g|] of a pair head, in their order."""
Parts = dict[str, dict[str, np.ndarray]]
"""Metrics [episodes] by part."""
POOL = {"candidate_seed": 123}


@dataclass(frozen=True)
class FeaturesOnly:
    """A terminal cost: a pair head of one input order, with some of its feature blocks set to zero."""

    head: PairHead
    kept: tuple[str, ...]

    @torch.no_grad()
    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        kept = torch.tensor([[name in self.kept] for name in BLOCKS])
        features = pair_features(terminal, goal[:, None]).unflatten(-1, (len(BLOCKS), -1)) * kept
        return self.head.scale * self.head.read(features.flatten(-2))


@torch.no_grad()
def swap_consistency(head: PairHead, terminal: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
    """Compare head(terminal, goal) with head(goal, terminal): [B, S, D], [B, D] -> [B], [B].

    Returns the mean absolute difference between both orders in each pool, and the mean output of the head.
    """
    forward, backward = head(terminal, goal[:, None]), head(goal[:, None], terminal)
    return (forward - backward).abs().mean(1), forward.mean(1)


def attribute(head: Head, probe: LinearProbe, terminal: Tensor, goal: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Score full and projected differences d = terminal - goal with a frozen head: [B, S, D], [B, D].

    Returns the costs of the terminal latents (`full`), of goal + P d (`rowspace`) and of goal + (I - P) d (`residual`),
    each [B, S], and the share of the squared gradient by d that lies in the rowspace, mean over a pool [B]. P projects
    onto the rowspace of the probe.
    """
    rowspace, residual = SubspaceCost(probe).projector, SubspaceCost(probe, residual=True).projector
    costs, shares = [], []
    for pool, target in zip(terminal, goal, strict=True):
        difference = (pool - target).requires_grad_()
        with torch.enable_grad():
            cost = head(target + difference, target)
            (gradient,) = torch.autograd.grad(cost.sum(), difference)
        with torch.no_grad():
            inside, outside = (head(target + difference @ part, target) for part in (rowspace, residual))
            costs.append((cost.detach(), inside, outside))
            share = (gradient @ rowspace).square().sum(-1) / gradient.square().sum(-1).clamp_min(1e-30)
            shares.append(share.mean())
    parts = map(torch.stack, zip(*costs, strict=True))
    return dict(zip(("full", "rowspace", "residual"), parts, strict=True)), torch.stack(shares)


@dataclass(frozen=True)
class PartsRun(RunSpec):
    """Metrics [episodes] of several parts of a head on the shared pools; rows are parts and episodes."""

    member: Member
    cost: str = "trm-paper"
    """The head."""

    def name(self, recording: Experiment) -> str:
        return f"{self.member.label}-{self.cost}"

    def needs(self, recording: Experiment) -> list[RunSpec]:
        return [HeadRun(self.member, self.cost)]

    def config(self, recording: Experiment) -> dict[str, Any]:
        weights = recording.sha256(HeadRun(self.member, self.cost), WEIGHTS)
        config = {**recording.inputs(self.member.model), "cost": self.cost, "head_sha256": weights}
        return config | {**recording.evaluation().record, **POOL}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        found, episodes = self.measure(recording), recording.evaluation().episodes
        missing, metrics = np.zeros(len(episodes)), dict.fromkeys(metric for one in found.values() for metric in one)
        return {
            "part": np.repeat(list(found), len(episodes)),
            "episode": np.tile(episodes, len(found)),
            **{metric: np.concatenate([one.get(metric, missing) for one in found.values()]) for metric in metrics},
        }

    @abstractmethod
    def measure(self, recording: Experiment) -> Parts:
        """Metrics of every part."""

    def parts(self, recording: Experiment) -> Parts:
        run = recording.read(self)
        names, parts = run.table().column_names[2:], [*dict.fromkeys(run.table()["part"].to_pylist())]
        read = require_rows(run, {"part": parts, "episode": recording.evaluation().episodes.tolist()}, names)
        return {part: {name: read[name][number] for name in names} for number, part in enumerate(parts)}


def _rankings(scores: Mapping[str, Tensor], distances: Mapping[str, np.ndarray]) -> Parts:
    ranked = compare_rankings({name: cost.numpy() for name, cost in scores.items()}, distances["oracle"])
    return {name: {"rho_geo": one.spearman, "rank": one.oracle_best_rank} for name, one in ranked.items()}


@dataclass(frozen=True)
class AttributionRun(PartsRun):
    """Rankings by each part of the difference, and the share of the gradient in the rowspace."""

    kind: ClassVar[str] = "attribution"

    def measure(self, recording: Experiment) -> Parts:
        terminal, goal, distances = recording.pool(self.member)
        head = recording.head(self.member, self.cost)
        costs, gradient_share = attribute(head, recording.probe(self.member.model), terminal, goal)
        values = _rankings(costs, distances)
        values["full"]["gradient_share"] = 100 * gradient_share.numpy()
        return values


@dataclass(frozen=True)
class FeaturesRun(PartsRun):
    """Rankings by some of the features, and the difference between both input orders."""

    kind: ClassVar[str] = "features"

    def measure(self, recording: Experiment) -> Parts:
        terminal, goal, distances = recording.pool(self.member)
        head = cast(PairHead, recording.head(self.member, self.cost))
        costs = {
            "absolute difference only": FeaturesOnly(head, ("absolute",)),
            "both differences only": FeaturesOnly(head, ("difference", "absolute")),
            "all features": HeadCost(head),
            "both orders averaged": HeadCost(symmetrised(head)),
        }
        values = _rankings({name: cost(terminal, goal) for name, cost in costs.items()}, distances)
        difference, magnitude = swap_consistency(head, terminal, goal)
        values["all features"]["swap_steps"] = difference.numpy()
        values["all features"]["swap_percent"] = 100 * difference.numpy() / magnitude.mean().item()
        return values


def _part_rows(
    experiment: Experiment, run: PartsRun, printed: Mapping[str, Any], setting: str = "{}"
) -> list[TableRow]:
    rows = []
    for part, found in run.parts(experiment).items():
        metrics = [*found] if part in ("full", "all features") else ["rho_geo", "rank"]  # only these parts have others
        values, name = {metric: found[metric][None] for metric in metrics}, setting.format(part)
        rows.append(metric_row(experiment, "lewm", run.cost, run.member.seed, values, printed.get(part), name))
    return rows


def attribution_rows(experiment: Experiment) -> list[TableRow]:
    rows = []
    for run in ATTRIBUTIONS:
        printed = PAPER["attribution"][LEWM.index(run.member)] if run.cost == "trm-paper" else {}
        rows += _part_rows(experiment, run, printed, "{} difference")
    return rows


def features_rows(experiment: Experiment) -> list[TableRow]:
    rows = []
    for number, run in enumerate(FEATURES):
        printed = {part: found[number] for part, found in PAPER["features"].items()}
        printed["all features"] = {**printed["all features"], **PAPER["swap"]["by_seed"][number]}
        rows += _part_rows(experiment, run, printed)
    return rows


ATTRIBUTIONS = [AttributionRun(member, cost) for cost in ("trm-paper", "trm") for member in LEWM]
FEATURES = [FeaturesRun(member) for member in LEWM]
