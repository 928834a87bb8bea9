"""How our TopoNav recipe was chosen: by prediction error on held-out trajectories alone.

From the paper's recipe one change at a time; all heads are judged on the same balanced pairs of the same trajectories,
which none of them was trained on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from reachcost.experiments.tables import ResultTable, TableRow
from reachcost.experiments.toponav import MODEL_NAME, OUR_HEAD, PAPER_HEAD, Experiment, HeadPlan, Settings
from reachcost.fitting import evaluate, one_thread
from reachcost.heads.storage import load_head
from reachcost.progress import Progress
from reachcost.records import exclusive
from reachcost.stats import mean_std

NOTE = (
    "TopoNav heads by recipe: RMSE in steps on balanced pairs of held-out trajectories (a tenth of the logs), mean "
    "over head seeds 3072, 3073, 3074. This alone chose `trm`; no closed-loop result entered. "
    "Made by `reachcost reproduce toponav-recipes`."
)


def _plans() -> dict[str, HeadPlan]:
    paper = replace(PAPER_HEAD, holdout=OUR_HEAD.holdout)
    balanced = replace(paper, sampling="balanced")
    symmetric = replace(balanced, recipe=replace(balanced.recipe, symmetric=True))
    peaks = {f"one-cycle, batch 256, 4 epochs, peak {rate:g}": rate for rate in (3e-3, 1e-2, 2e-2, 4e-2, 8e-2)}
    return {
        "paper recipe": paper,
        "balanced pairs": balanced,
        "symmetric": symmetric,
        **{
            name: replace(OUR_HEAD, recipe=replace(OUR_HEAD.recipe, learning_rate=rate)) for name, rate in peaks.items()
        },
    }


def reproduce_recipes(out: Path, progress: Progress) -> ResultTable:
    """Train every recipe in `out`, then write the table of their held-out errors."""
    experiment = Experiment(out, Settings(table="toponav-recipes", heads=_plans()), progress)
    with exclusive(out), one_thread():
        pairs = experiment.pairs(OUR_HEAD)
        rows = []
        for name in experiment.settings.heads:
            runs = [experiment.head_run(name, seed) for seed in experiment.settings.head_seeds]
            errors = [evaluate(load_head(run.path), pairs.latents, pairs.validation)[1] for run in runs]
            mean, deviation = mean_std(np.array(errors))
            rows.append(
                TableRow(
                    cost=name,
                    model=MODEL_NAME,
                    n=len(pairs.validation),
                    ours={"validation_rmse": mean},
                    interval={},
                    paper=None,
                    extra={"per_seed": [round(error, 4) for error in errors], "std": round(deviation, 4)},
                )
            )
        command = {"command": "reachcost reproduce toponav-recipes"}
        table = ResultTable("toponav-recipes", NOTE, ("validation_rmse",), rows, command)
        table.write(out)
    return table
