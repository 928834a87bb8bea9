"""What figures show of single episodes and pairs: the paper's representative trace, and how far apart pairs lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reachcost.audits.labels import BANDS
from reachcost.results.records import Columns, require_rows
from reachcost.results.tables import TableRow
from reachcost.studies.closed_loop import outcomes
from reachcost.studies.experiment import Experiment
from reachcost.studies.study import HeadPlan, Setting
from reachcost.studies.trace import trace_rows as rows_of
from reachcost.studies.trace import trace_run
from reachcost.studies.tworoom import paper_audits as paper
from reachcost.studies.tworoom.settings import ABLATION, LEWM

MEMBER = LEWM[0]
TRACED = ("raw", "trm-paper")
SAMPLED = ("trm-paper", "trm-gap50")
GAPS = {f"gaps_{low}_{high}": (low, high) for low, high in BANDS}
"""Metrics that are shares of pairs."""


def trace_rows(experiment: Experiment) -> list[TableRow]:
    """An episode that latent distance ends in the wrong room and the paper's head solves: the best such, or the first.

    With a head of its own: weights are not kept, and that of the other tables does not come out of every processor.
    """
    experiment = experiment.variant(name=f"{experiment.study.name}-trace")
    settings = [Setting(MEMBER, cost) for cost in TRACED]
    raw, trm = (outcomes(experiment, setting) for setting in settings)
    left = np.where((raw["wrong_room"] > 0) & (trm["success"] > 0), raw["distance"], np.inf)
    episode = int(experiment.evaluation().episodes[np.argmin(left)])
    return rows_of(trace_run(experiment, settings, episode), settings, "lewm")


def sampling_rows(experiment: Experiment) -> list[TableRow]:
    """How many of a head's training pairs lie how far apart, in percent."""
    longest = BANDS[-1][1]
    rows = []
    for cost in SAMPLED:
        plan = ABLATION[cost]

        def compute(_: Path, plan: HeadPlan = plan) -> Columns:
            gaps = experiment.pairs(MEMBER, plan, MEMBER.seed).train.gap.long().numpy()
            return {"gap": np.arange(longest + 1), "pairs": np.bincount(gaps, minlength=longest + 1)}

        config = {**experiment.inputs(MEMBER.model), "head": plan, "pair_seed": MEMBER.seed}
        run = experiment.run("gaps", f"{MEMBER.label}-{cost}", config, compute)
        pairs = require_rows(run, {"gap": range(longest + 1)}, ("pairs",))["pairs"]
        shares = {name: 100 * float(pairs[low : high + 1].sum() / pairs.sum()) for name, (low, high) in GAPS.items()}
        rows.append(TableRow(cost, "logs", int(pairs.sum()), shares, {}, _printed() if cost == "trm-paper" else None))
    return rows


def _printed() -> dict[str, float]:
    whole, *_ = paper.TEMPORAL_GEODESIC["all"]
    return {name: 100 * paper.TEMPORAL_GEODESIC[f"gap {low}-{high}"][0] / whole for name, (low, high) in GAPS.items()}
