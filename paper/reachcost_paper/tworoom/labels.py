"""Training pairs of the paper's heads: how logged gaps follow the true distance, and which gaps are sampled."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.tables import TableRows
from reachcost.labels.pairs import Pairs
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import cluster_bootstrap, ranks
from reachcost.results.tables import TableRow
from reachcost_paper.tworoom.settings import LEWM, PAPER

MEMBER = LEWM[0]
BANDS = ((1, 10), (11, 25), (26, 50), (51, 75), (76, 100))
"""Bands of gaps in steps, both ends included."""
LONGEST = BANDS[-1][1]
GAPS = {f"gaps_{low}_{high}": (low, high) for low, high in BANDS}
"""Metrics that are shares of pairs."""
SAMPLED = ("trm-paper", "trm-gap50")
Quality = tuple[int, dict[str, float], dict[str, list[float]]]
"""Number of pairs, and the correlations `pearson` and `spearman` with their intervals."""


def label_quality(
    gaps: np.ndarray, distances: np.ndarray, groups: Mapping[str, np.ndarray], episodes: np.ndarray
) -> dict[str, Quality]:
    """Compare gaps [P] with distances [P]: all pairs, groups of them (masks [P] by name), and by band of the gap.

    Intervals resample `episodes` [P], the episode of each pair.
    """
    subsets = {"all": np.ones(len(gaps), bool), **groups}
    subsets |= {f"gap {low}-{high}": (gaps >= low) & (gaps <= high) for low, high in BANDS}
    quality = {}
    for name, chosen in subsets.items():
        if chosen.sum() < 3:
            raise ReachcostError(f"only {chosen.sum()} pairs are {name!r}: sample more pairs")
        gap, distance, episode = gaps[chosen], distances[chosen], episodes[chosen]
        moments = np.hstack([_moments(gap, distance), _moments(ranks(gap), ranks(distance))])
        found = _correlations(moments.sum(0, keepdims=True))[0].tolist()
        bounds = cluster_bootstrap(moments, episode, _correlations).T.tolist()
        correlations, intervals = (dict(zip(("pearson", "spearman"), part, strict=True)) for part in (found, bounds))
        quality[name] = int(chosen.sum()), correlations, intervals
    return quality


def _moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Terms of the correlation of x [P] and y [P]: 1, x, y, x^2, y^2 and x y, standardised [P, 6]."""
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)


def _correlations(totals: np.ndarray) -> np.ndarray:
    """Correlations from sums of several times six moments: [N, K * 6] -> [N, K]."""
    count, x, y, xx, yy, xy = np.moveaxis(totals.reshape(len(totals), -1, 6), 2, 0)
    return (count * xy - x * y) / np.sqrt((count * xx - x * x) * (count * yy - y * y))


@dataclass(frozen=True)
class PairsRun(RunSpec):
    """A measurement of a head's training pairs, on the first world model."""

    cost: str
    """The head."""

    def name(self, recording: Experiment) -> str:
        return f"{MEMBER.label}-{self.cost}"

    def config(self, recording: Experiment) -> dict[str, Any]:
        plan = recording.study.heads[self.cost]
        return {**recording.inputs(MEMBER.model), "head": plan, "pair_seed": MEMBER.seed}

    def pairs(self, recording: Experiment) -> Pairs:
        """The pairs of the head."""
        return recording.pairs(MEMBER, recording.study.heads[self.cost], MEMBER.seed)


@dataclass(frozen=True)
class LabelsRun(PairsRun):
    """Logged gaps and true distances of the training pairs of the paper's head; rows are pairs."""

    kind: ClassVar[str] = "labels"
    cost: str = "trm-paper"

    def name(self, recording: Experiment) -> str:
        return MEMBER.label

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        task, pairs = recording.task, self.pairs(recording).train
        states = recording.logs.columns["state"]
        first, second = (states[rows.numpy()] for rows in (pairs.first, pairs.second))
        return {
            "gap": pairs.gap.numpy().astype(np.int16),
            "distance": task.distance(first, second),
            "crosses": task.groups(first, second)["cross wall"],
            "episode": recording.logs.episode_of(pairs.first.numpy()).astype(np.int32),
        }


def temporal_rows(experiment: Experiment) -> list[TableRow]:
    table = experiment.read(LabelsRun()).table()
    gap, distance, crosses, episode = (
        table[name].to_numpy(zero_copy_only=False) for name in ("gap", "distance", "crosses", "episode")
    )
    groups = {"same room": ~crosses, "across the wall": crosses}
    rows = []
    quality = label_quality(gap.astype(float), distance, groups, episode)
    for name, (pairs, correlations, intervals) in quality.items():
        printed, ours = PAPER["temporal-geodesic"][name], {"pairs": 100 * pairs / len(table), **correlations}
        paper = {**printed, "pairs": 100 * printed["pairs"] / 100_000}
        rows.append(TableRow("temporal labels", "logs", pairs, ours, intervals, paper, setting=name))
    return rows


@dataclass(frozen=True)
class GapsRun(PairsRun):
    """Histogram of the gaps of a head's training pairs; rows are gaps."""

    kind: ClassVar[str] = "gaps"

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        gaps = self.pairs(recording).train.gap.long().numpy()
        return {"gap": np.arange(LONGEST + 1), "pairs": np.bincount(gaps, minlength=LONGEST + 1)}


def sampling_rows(experiment: Experiment) -> list[TableRow]:
    counts = {name: found["pairs"] for name, found in PAPER["temporal-geodesic"].items()}
    printed = {name: 100 * counts[f"gap {low}-{high}"] / counts["all"] for name, (low, high) in GAPS.items()}
    rows = []
    for cost in SAMPLED:
        pairs = require_rows(experiment.read(GapsRun(cost)), {"gap": range(LONGEST + 1)}, ("pairs",))["pairs"]
        shares = {name: 100 * float(pairs[low : high + 1].sum() / pairs.sum()) for name, (low, high) in GAPS.items()}
        rows.append(TableRow(cost, "logs", int(pairs.sum()), shares, {}, printed if cost == "trm-paper" else None))
    return rows


TEMPORAL = TableRows([LabelsRun()], temporal_rows)
SAMPLING = TableRows([GapsRun(cost) for cost in SAMPLED], sampling_rows)
