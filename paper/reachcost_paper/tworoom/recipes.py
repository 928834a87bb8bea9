"""How our TwoRoom recipe was chosen: by held-out logs alone.

Every recipe is judged on a tenth of the episodes, which no head was trained on, by its rank correlation with the
fastest logged way (see `reachcost.fitting.logged_audit`). That is fair to heads that do not predict the mean, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from reachcost.costs.latent import HeadCost
from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.study import HeadPlan
from reachcost.experiments.tables import TablePlan, TableRows
from reachcost.fitting.fit import evaluate
from reachcost.fitting.logged_audit import LoggedPools, logged_audit, logged_pools
from reachcost.heads.base import LearnedHead
from reachcost.labels.pairs import PairSet
from reachcost.labels.temporal import TemporalPairs
from reachcost.results.records import Columns, Run, require_rows
from reachcost.results.tables import TableRow
from reachcost_paper.recipes import JudgedRun, recipe_rows
from reachcost_paper.tworoom.settings import LEWM, OUR_HEAD, PAPER_HEAD

MEMBER = LEWM[0]
SEEDS = (0, 1)
GOALS = 200
NOTE = (
    "TwoRoom heads by recipe, on the latents of lewm-tworoom-3072. `paper`: the paper's. `symmetric`: both input "
    "orders averaged. `one-cycle`: in 8 epochs of batch 256 under a one-cycle schedule that peaks at 0.003, label "
    "scale 50. `fresh`: new pairs every epoch. `embedding`: our head. Each of these adds to the one before. "
    "`expectile-E`: `embedding` with weight E on predictions below their label. `scale-S`: `expectile-0.05` with "
    "another label scale. ρ is the mean rank correlation with the fastest logged way to n goals, on a tenth of the "
    "episodes that no head was trained on, mean over two head seeds; the interval resamples goals. RMSE is in steps "
    "on held-out pairs; a head that leans to short times has a larger one by design. ρ alone chose `trm` among "
    "these."
)


def plans() -> dict[str, HeadPlan]:
    """The recipes that were compared."""
    held_out = replace(PAPER_HEAD, holdout=OUR_HEAD.holdout)
    symmetric = replace(held_out, recipe=replace(held_out.recipe, symmetric=True))
    quick = {"epochs": 8, "batch_size": 256, "learning_rate": 3e-3, "schedule": "one-cycle", "scale": 50.0}
    one_cycle = replace(symmetric, recipe=replace(symmetric.recipe, **quick))
    fresh = replace(one_cycle, recipe=replace(one_cycle.recipe, fresh=True))
    embedding = replace(fresh, recipe=replace(fresh.recipe, head="embedding", symmetric=None))
    expectiles = {
        f"expectile-{weight:g}": replace(embedding, recipe=replace(embedding.recipe, expectile=weight))
        for weight in (0.2, 0.1, 0.05, 0.02)
    }
    scales = {
        f"scale-{scale:g}": replace(embedding, recipe=replace(embedding.recipe, expectile=0.05, scale=scale))
        for scale in (10.0, 20.0)
    }
    return {
        "paper": held_out,
        "symmetric": symmetric,
        "one-cycle": one_cycle,
        "fresh": fresh,
        "embedding": embedding,
        **expectiles,
        **scales,
    }


def compared(experiment: Experiment) -> Experiment:
    """The study whose heads are the recipes."""
    return experiment.variant(name="tworoom-recipes", heads=plans(), pair_seed=0)


def held_out(experiment: Experiment) -> tuple[PairSet, LoggedPools]:
    """What every head is measured on."""
    pairs = experiment.pairs(MEMBER, OUR_HEAD, 0)
    assert isinstance(pairs, TemporalPairs)
    return pairs.validation, logged_pools(experiment.latents(MEMBER.model), pairs.held_out, GOALS)


@dataclass(frozen=True)
class RecipeRun(JudgedRun):
    """How a head ranks held-out logs; rows are goals."""

    further: ClassVar[Mapping[str, int]] = {"goals": GOALS}

    def name(self, recording: Experiment) -> str:
        """Plan and seed."""
        return f"{self.plan}-{self.seed}"

    def judge(self, recording: Experiment, head: LearnedHead) -> Columns:
        """Rank correlation with the fastest logged route, and the error on held-out pairs."""
        latents, (pairs, pools) = recording.latents(self.member.model), recording.once(held_out)
        found = logged_audit({"head": HeadCost(head)}, latents, pools)["head"].spearman
        # The error is one number for each head: it stands in every row.
        error = evaluate(head, latents.values, pairs)[1]
        return {"goal": np.arange(GOALS), "rho_logged": found, "validation_rmse": np.full(GOALS, error)}


def compared_runs(experiment: Experiment) -> list[Cell]:
    """Every recipe, measured."""
    return experiment.derive(compared).cells(RUNS)


def compared_rows(experiment: Experiment) -> list[TableRow]:
    """How every recipe ranks held-out logs."""

    def read(run: Run) -> tuple[int, dict[str, np.ndarray]]:
        found = require_rows(run, {"goal": list(range(GOALS))}, ("rho_logged", "validation_rmse"))
        return GOALS, {**found, "validation_rmse": found["validation_rmse"][:1]}

    return recipe_rows(experiment.derive(compared), RUNS, read)


RUNS = [RecipeRun(plan, MEMBER, seed) for plan in plans() for seed in SEEDS]
ROWS = TableRows(compared_runs, compared_rows)
TABLE = TablePlan(NOTE, ("rho_logged", "validation_rmse"), ROWS, intervals="", legend=False)
