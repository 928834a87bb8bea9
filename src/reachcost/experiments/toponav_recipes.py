"""How our TopoNav recipe was chosen: by prediction error on held-out trajectories alone.

All heads are judged on the same balanced pairs, from trajectories that none of them was trained on and between states
that none of them saw as a pair.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from reachcost.base.parallel import one_thread
from reachcost.base.progress import Progress
from reachcost.data.evaluation import EvaluationSet
from reachcost.experiments.recorder import read_head
from reachcost.experiments.toponav import MODEL_NAME, OUR_HEAD, PAPER_HEAD, Experiment, HeadPlan, Settings
from reachcost.repair.exclusion import Exclusion
from reachcost.repair.fitting import evaluate
from reachcost.repair.pairs import PairSet
from reachcost.repair.temporal import TemporalPairs
from reachcost.results.records import exclusive, require_intact_runs
from reachcost.results.stats import mean_std
from reachcost.results.tables import ResultTable, TableRow

COMMAND = "reachcost reproduce toponav-recipes"
NOTE = (
    "TopoNav heads by recipe. `paper`: the paper's. `balanced`: the same with balanced pairs. `symmetric`: that with a "
    "symmetric head. `one-cycle-R`: that in 4 epochs of batch 256 under a one-cycle schedule that peaks at R. RMSE in "
    "steps, mean over head seeds 3072, 3073, 3074, on n balanced pairs from held-out trajectories (a tenth of the "
    "logs) whose two states no head was trained on as a pair. This alone chose `trm`; no closed-loop result entered. "
    f"Made by `{COMMAND}`."
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


def reproduce_recipes(out: Path, progress: Progress) -> ResultTable:
    """Train every recipe in `out`, then write the table of their held-out errors."""
    experiment = Experiment(out, Settings(table="toponav-recipes", heads=plans()), progress)
    with exclusive(out), one_thread():
        require_intact_runs(out)
        judge, rows, weights = unseen_pairs(experiment), [], {}
        for name in experiment.settings.heads:
            runs = [experiment.head_run(name, seed) for seed in experiment.settings.head_seeds]
            errors = [evaluate(read_head(run), experiment.latents.values, judge)[1] for run in runs]
            mean, deviation = mean_std(np.array(errors))
            weights |= {run.path.name: run.sha256["weights.safetensors"] for run in runs}
            rows.append(
                TableRow(
                    cost=name,
                    model=MODEL_NAME,
                    n=len(judge),
                    ours={"validation_rmse": mean},
                    interval={},
                    paper=None,
                    extra={"per_seed": [round(error, 4) for error in errors], "std": round(deviation, 4)},
                )
            )
        provenance = {"command": COMMAND, "weights_sha256": weights}
        table = ResultTable("toponav-recipes", NOTE, ("validation_rmse",), rows, provenance)
        table.write(out)
    return table


def unseen_pairs(experiment: Experiment) -> PairSet:
    """The validation pairs whose two states are no training pair of any recipe, in either order."""
    ours = experiment.pairs(OUR_HEAD)
    trained = [ours, experiment.pairs(replace(PAPER_HEAD, holdout=OUR_HEAD.holdout))]
    seen = np.zeros(len(ours.validation), bool)
    for pairs in trained:
        seen |= _seen(experiment, ours.validation, pairs)
    keep = ~seen
    return PairSet(*(column[keep] for column in (ours.validation.first, ours.validation.second, ours.validation.gap)))


def _seen(experiment: Experiment, judge: PairSet, trained: TemporalPairs) -> np.ndarray:
    logs = experiment.latents.logs
    states = logs.columns["state"]
    first, second = (states[rows.numpy()] for rows in (trained.train.first, trained.train.second))
    as_set = EvaluationSet("training pairs", first, second, trained.record["seed"], np.arange(len(first)))
    return Exclusion(logs, [as_set]).bans(judge.first.numpy(), judge.second.numpy())
