"""How our TwoRoom recipe was chosen: by held-out logs alone.

Every recipe is scored on a tenth of the episodes, which no head was trained on, by its rank correlation with the
fastest logged route (see `reachcost.fitting.logged_audit`). This is also fair to heads that do not predict the mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from reachcost.costs.latent import HeadCost
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.study import HeadPlan
from reachcost.fitting.fit import evaluate
from reachcost.fitting.logged_audit import LoggedPools, logged_audit, logged_pools
from reachcost.heads.base import LearnedHead
from reachcost.labels.pairs import PairSet
from reachcost.labels.temporal import TemporalPairs
from reachcost.results.records import Columns, Run, require_rows
from reachcost_paper.rows import ScoredHead, recipe_table
from reachcost_paper.tworoom.settings import LEWM, OUR_HEAD, PAPER_HEAD

MEMBER = LEWM[0]
SEEDS = (0, 1)
GOALS = 200


def plans() -> dict[str, HeadPlan]:
    """The recipes that were compared; each adds to the one before, up to `embedding`."""

    def changed(plan: HeadPlan, **recipe: Any) -> HeadPlan:
        return replace(plan, recipe=replace(plan.recipe, **recipe))

    found = {"paper": replace(PAPER_HEAD, holdout=OUR_HEAD.holdout)}
    found["symmetric"] = changed(found["paper"], symmetric=True)
    size: dict[str, Any] = {"epochs": 8, "batch_size": 256, "learning_rate": 3e-3, "scale": 50.0}
    found["one-cycle"] = changed(found["symmetric"], schedule="one-cycle", **size)
    found["fresh"] = changed(found["one-cycle"], fresh=True)
    found["embedding"] = embedding = changed(found["fresh"], head="embedding", symmetric=None)
    found |= {f"expectile-{weight:g}": changed(embedding, expectile=weight) for weight in (0.2, 0.1, 0.05, 0.02)}
    return found | {f"scale-{scale:g}": changed(embedding, expectile=0.05, scale=scale) for scale in (10.0, 20.0)}


def compared(experiment: Experiment) -> Experiment:
    return experiment.variant(name="tworoom-recipes", heads=plans(), pair_seed=0)


def held_out(experiment: Experiment) -> tuple[PairSet, LoggedPools]:
    pairs = experiment.pairs(MEMBER, OUR_HEAD, 0)
    assert isinstance(pairs, TemporalPairs)
    return pairs.validation, logged_pools(experiment.latents(MEMBER.model), pairs.held_out, GOALS)


@dataclass(frozen=True)
class RouteRankingRun(ScoredHead):
    """How a head ranks held-out logs; rows are goals."""

    further: ClassVar[Mapping[str, int]] = {"goals": GOALS}

    def name(self, recording: Experiment) -> str:
        return f"{self.plan}-{self.seed}"

    def score(self, recording: Experiment, head: LearnedHead) -> Columns:
        """Rank correlation with the fastest logged route, and the error on held-out pairs, the same in every row."""
        latents, (pairs, pools) = recording.latents(self.member.model), recording.once(held_out)
        found = logged_audit({"head": HeadCost(head)}, latents, pools)["head"].spearman
        error = evaluate(head, latents.values, pairs)[1]
        return {"goal": np.arange(GOALS), "rho_logged": found, "validation_rmse": np.full(GOALS, error)}

    def metrics(self, run: Run) -> tuple[int, dict[str, np.ndarray]]:
        found = require_rows(run, {"goal": list(range(GOALS))}, ("rho_logged", "validation_rmse"))
        return GOALS, {**found, "validation_rmse": found["validation_rmse"][:1]}


RUNS = [RouteRankingRun(plan, MEMBER, seed) for plan in plans() for seed in SEEDS]
ROWS = recipe_table(compared, RUNS)
