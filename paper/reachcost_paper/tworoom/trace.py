"""What figures show of single episodes and pairs: the paper's representative trace, and how far apart pairs lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.experiments.cells import Cell, RunSpec
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.runs import ControlRun, outcomes
from reachcost.experiments.study import Setting
from reachcost.experiments.tables import TableRows
from reachcost.results.records import Columns, require_rows
from reachcost.results.tables import TableRow
from reachcost_paper.audits.labels import BANDS
from reachcost_paper.trace import TraceRun
from reachcost_paper.trace import trace_rows as rows_of
from reachcost_paper.tworoom import paper_audits as paper
from reachcost_paper.tworoom.settings import ABLATION, LEWM

MEMBER = LEWM[0]
TRACED = ("raw", "trm-paper")
SAMPLED = ("trm-paper", "trm-gap50")
GAPS = {f"gaps_{low}_{high}": (low, high) for low, high in BANDS}
"""Metrics that are shares of pairs."""
LONGEST = BANDS[-1][1]


SETTINGS = tuple(Setting(MEMBER, cost) for cost in TRACED)


def traced(experiment: Experiment) -> Experiment:
    """The study with a separate head: weights are not kept, and the other tables' differ between processors."""
    return experiment.variant(name=f"{experiment.study.name}-trace")


def control_runs(experiment: Experiment) -> list[Cell]:
    """The closed loops that the episode is chosen from."""
    return experiment.derive(traced).cells(map(ControlRun, SETTINGS))


def trace_cell(experiment: Experiment) -> Cell:
    """The trace of an episode that latent distance ends in the wrong room and the paper's head solves.

    Of those, the one that latent distance brings nearest to its goal; the first episode if there is none.
    """
    variant = experiment.derive(traced)
    raw, trm = (outcomes(variant, setting) for setting in SETTINGS)
    left = np.where((raw["wrong_room"] > 0) & (trm["success"] > 0), raw["distance"], np.inf)
    return variant.cell(TraceRun(SETTINGS, int(variant.evaluation().episodes[np.argmin(left)])))


def trace_rows(experiment: Experiment) -> list[TableRow]:
    """The episode under each cost."""
    return rows_of(experiment.recorder.read(trace_cell(experiment)), SETTINGS, "lewm")


@dataclass(frozen=True)
class GapsRun(RunSpec):
    """How many of a head's training pairs lie how far apart; rows are gaps."""

    kind: ClassVar[str] = "gaps"
    cost: str
    """The head."""

    def name(self, recording: Experiment) -> str:
        """Member and head."""
        return f"{MEMBER.label}-{self.cost}"

    def config(self, recording: Experiment) -> dict[str, Any]:
        """How pairs are drawn."""
        return {**recording.inputs(MEMBER.model), "head": ABLATION[self.cost], "pair_seed": MEMBER.seed}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Draw the pairs and count."""
        gaps = recording.pairs(MEMBER, ABLATION[self.cost], MEMBER.seed).train.gap.long().numpy()
        return {"gap": np.arange(LONGEST + 1), "pairs": np.bincount(gaps, minlength=LONGEST + 1)}


def sampling_rows(experiment: Experiment) -> list[TableRow]:
    """How many of a head's training pairs lie how far apart, in percent."""
    rows = []
    for cost in SAMPLED:
        pairs = require_rows(experiment.read(GapsRun(cost)), {"gap": range(LONGEST + 1)}, ("pairs",))["pairs"]
        shares = {name: 100 * float(pairs[low : high + 1].sum() / pairs.sum()) for name, (low, high) in GAPS.items()}
        rows.append(TableRow(cost, "logs", int(pairs.sum()), shares, {}, _printed() if cost == "trm-paper" else None))
    return rows


TRACE = TableRows(control_runs, trace_rows, lambda experiment: [trace_cell(experiment)])
SAMPLING = TableRows([GapsRun(cost) for cost in SAMPLED], sampling_rows)


def _printed() -> dict[str, float]:
    whole, *_ = paper.TEMPORAL_GEODESIC["all"]
    return {name: 100 * paper.TEMPORAL_GEODESIC[f"gap {low}-{high}"][0] / whole for name, (low, high) in GAPS.items()}
