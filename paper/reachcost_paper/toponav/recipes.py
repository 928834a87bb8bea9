"""How our TopoNav recipe was chosen: by prediction error on held-out trajectories alone.

All heads are judged on the same balanced pairs, from trajectories that none of them was trained on and between states
that none of them saw as a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from reachcost.data.evaluation import EvaluationSet
from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.study import HeadPlan
from reachcost.experiments.tables import TablePlan, TableRows
from reachcost.heads.base import LearnedHead
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import Pairs, PairSet
from reachcost.results.records import Columns, Run
from reachcost.results.tables import TableRow
from reachcost_paper.recipes import JudgedRun, recipe_rows
from reachcost_paper.toponav.settings import KIND, MEMBERS, OUR_HEAD, PAPER_HEAD

NOTE = (
    "TopoNav heads by recipe. `paper`: the paper's. `balanced`: the same with balanced pairs. `symmetric`: that with a "
    "symmetric head. `one-cycle-R`: that in 4 epochs of batch 256 under a one-cycle schedule that peaks at R. RMSE in "
    "steps, mean over head seeds 3072, 3073, 3074, on n balanced pairs from held-out trajectories (a tenth of the "
    "logs) whose two states no head was trained on as a pair. This alone chose `trm`; no closed-loop result entered."
)


def plans() -> dict[str, HeadPlan]:
    """The recipes that were compared."""
    paper = replace(PAPER_HEAD, holdout=OUR_HEAD.holdout)
    balanced = replace(paper, sampling="balanced")
    symmetric = replace(balanced, recipe=replace(balanced.recipe, symmetric=True))
    peaks = {f"one-cycle-{rate:g}": rate for rate in (3e-3, 1e-2, 2e-2, 4e-2, 8e-2)}
    return {
        "paper": paper,
        "balanced": balanced,
        "symmetric": symmetric,
        **{
            name: replace(OUR_HEAD, recipe=replace(OUR_HEAD.recipe, learning_rate=rate)) for name, rate in peaks.items()
        },
    }


def compared(experiment: Experiment) -> Experiment:
    """The study whose heads are the recipes."""
    return experiment.variant(name="toponav-recipes", heads=plans())


@dataclass(frozen=True)
class RecipeRun(JudgedRun):
    """The error of a head on pairs that no head was trained on; rows are episodes."""

    def name(self, recording: Experiment) -> str:
        """Member and plan."""
        return f"{self.member.label}-{self.plan}"

    @torch.no_grad()
    def judge(self, recording: Experiment, head: LearnedHead) -> Columns:
        """Squared errors, summed over the pairs of each episode."""
        latents, pairs = recording.latents(KIND).values, recording.once(unseen_pairs)
        error = (head(latents[pairs.first], latents[pairs.second]) - pairs.gap).double().square().numpy()
        episodes, place = np.unique(recording.logs.episode_of(pairs.first.numpy()), return_inverse=True)
        return {"episode": episodes, "pairs": np.bincount(place), "squared_error": np.bincount(place, weights=error)}


def compared_runs(experiment: Experiment) -> list[Cell]:
    """Every recipe, measured."""
    return experiment.derive(compared).cells(RUNS)


def compared_rows(experiment: Experiment) -> list[TableRow]:
    """The error of every recipe."""

    def read(run: Run) -> tuple[int, dict[str, np.ndarray]]:
        table = run.table()
        count = sum(table["pairs"].to_pylist())
        return count, {"validation_rmse": np.sqrt([sum(table["squared_error"].to_pylist()) / count])}

    return recipe_rows(experiment.derive(compared), RUNS, read)


def unseen_pairs(experiment: Experiment) -> PairSet:
    """The validation pairs whose two states are no training pair of any recipe, in either order."""
    member = MEMBERS[KIND][0]
    ours = experiment.pairs(member, OUR_HEAD, member.seed)
    trained = [ours, experiment.pairs(member, replace(PAPER_HEAD, holdout=OUR_HEAD.holdout), member.seed)]
    seen = np.zeros(len(ours.validation), bool)
    for pairs in trained:
        seen |= _seen(experiment, ours.validation, pairs)
    keep = ~seen
    return PairSet(*(column[keep] for column in (ours.validation.first, ours.validation.second, ours.validation.gap)))


def _seen(experiment: Experiment, judge: PairSet, trained: Pairs) -> np.ndarray:
    states = experiment.logs.columns["state"]
    first, second = (states[rows.numpy()] for rows in (trained.train.first, trained.train.second))
    as_set = EvaluationSet(first, second, "training pairs", trained.record["seed"])
    return Exclusion(experiment.logs, [as_set]).bans(judge.first.numpy(), judge.second.numpy())


RUNS = [RecipeRun(plan, member, member.seed) for plan in plans() for member in MEMBERS[KIND]]
ROWS = TableRows(compared_runs, compared_rows)
TABLE = TablePlan(NOTE, ("validation_rmse",), ROWS, intervals="", legend=False)
