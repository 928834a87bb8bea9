"""How our TopoNav recipe was chosen: by prediction error on held-out trajectories alone.

All heads are scored on the same balanced pairs, from trajectories that no head was trained on and between states that
no head saw as a pair.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from reachcost.data.evaluation import EvaluationSet
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.study import HeadPlan
from reachcost.heads.base import LearnedHead
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import PairSet
from reachcost.results.records import Columns, Run
from reachcost_paper.recipes import ScoredHead, recipe_table
from reachcost_paper.toponav.settings import KIND, MEMBERS, OUR_HEAD, PAPER_HEAD


def plans() -> dict[str, HeadPlan]:
    """The recipes that were compared."""
    paper = replace(PAPER_HEAD, holdout=OUR_HEAD.holdout)
    balanced = replace(paper, sampling="balanced")
    one_cycle = {
        f"one-cycle-{rate:g}": replace(OUR_HEAD, recipe=replace(OUR_HEAD.recipe, learning_rate=rate))
        for rate in (3e-3, 1e-2, 2e-2, 4e-2, 8e-2)
    }
    symmetric = replace(balanced, recipe=replace(balanced.recipe, symmetric=True))
    return {"paper": paper, "balanced": balanced, "symmetric": symmetric, **one_cycle}


def compared(experiment: Experiment) -> Experiment:
    """The study whose heads are the recipes."""
    return experiment.variant(name="toponav-recipes", heads=plans())


@dataclass(frozen=True)
class RecipeRun(ScoredHead):
    """The error of a head on pairs that no head was trained on; rows are episodes."""

    def name(self, recording: Experiment) -> str:
        return f"{self.member.label}-{self.plan}"

    @torch.no_grad()
    def score(self, recording: Experiment, head: LearnedHead) -> Columns:
        """Squared errors, summed over the pairs of each episode."""
        latents, pairs = recording.latents(KIND).values, recording.once(unseen_pairs)
        error = (head(latents[pairs.first], latents[pairs.second]) - pairs.gap).double().square().numpy()
        episodes, place = np.unique(recording.logs.episode_of(pairs.first.numpy()), return_inverse=True)
        return {"episode": episodes, "pairs": np.bincount(place), "squared_error": np.bincount(place, weights=error)}

    def metrics(self, run: Run) -> tuple[int, dict[str, np.ndarray]]:
        table = run.table()
        count = sum(table["pairs"].to_pylist())
        return count, {"validation_rmse": np.sqrt([sum(table["squared_error"].to_pylist()) / count])}


def unseen_pairs(experiment: Experiment) -> PairSet:
    """The validation pairs whose two states are not a training pair of any recipe, in either order."""
    member = MEMBERS[KIND][0]
    ours, paper = (experiment.pairs(member, plan, member.seed) for plan in (OUR_HEAD, plans()["paper"]))
    validation, seen = ours.validation, np.zeros(len(ours.validation), bool)
    states = experiment.logs.columns["state"]
    for pairs in (ours, paper):
        first, second = (states[rows.numpy()] for rows in (pairs.train.first, pairs.train.second))
        trained = EvaluationSet(first, second, "training pairs", pairs.record["seed"])
        seen |= Exclusion(experiment.logs, [trained]).bans(validation.first.numpy(), validation.second.numpy())
    return PairSet(*(column[~seen] for column in (validation.first, validation.second, validation.gap)))


RUNS = [RecipeRun(plan, member, member.seed) for plan in plans() for member in MEMBERS[KIND]]
ROWS = recipe_table(compared, RUNS)
