"""How our TwoRoom recipe was chosen: by held-out logs alone.

Every recipe is judged on a tenth of the episodes, which no head was trained on, by its rank correlation with the
fastest logged way (see `reachcost.audits.logged`). That is fair to heads that do not predict the mean, too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from reachcost.audits.logged import logged_audit, logged_pools
from reachcost.base.progress import Progress
from reachcost.costs.head import HeadCost
from reachcost.experiments.recorder import read_head
from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_settings import OUR_HEAD, PAPER_HEAD, HeadPlan
from reachcost.experiments.tworoom_tables import provenance
from reachcost.repair.fitting import evaluate
from reachcost.repair.temporal import TemporalPairs
from reachcost.results.records import exclusive, require_intact_runs
from reachcost.results.stats import mean_std, paired_bootstrap
from reachcost.results.tables import ResultTable, TableRow

MODEL = "lewm-tworoom-3072"
SEEDS = (0, 1)
COMMAND = "reachcost reproduce tworoom-recipes"
NOTE = (
    "TwoRoom heads by recipe, on the latents of lewm-tworoom-3072. `paper`: the paper's. `symmetric`: both input "
    "orders averaged. `one-cycle`: in 8 epochs of batch 256 under a one-cycle schedule that peaks at 0.003, label "
    "scale 50. `fresh`: new pairs every epoch. `embedding`: our head. Each of these adds to the one before. "
    "`expectile-E`: `embedding` with weight E on predictions below their label. `scale-S`: `expectile-0.05` with "
    "another label scale. ρ is the mean rank correlation with the fastest logged way to n goals, on a tenth of the "
    "episodes that no head was trained on, mean over two head seeds; the interval resamples goals. RMSE is in steps "
    "on held-out pairs; a head that leans to short times has a larger one by design. ρ alone chose `trm` among "
    "these. Made by "
    f"`{COMMAND}`."
)


def plans() -> dict[str, HeadPlan]:
    """The recipes that were compared."""
    held_out = replace(PAPER_HEAD, holdout=OUR_HEAD.holdout)
    symmetric = replace(held_out, recipe=replace(held_out.recipe, symmetric=True))
    quick = {"epochs": 8, "batch_size": 256, "learning_rate": 3e-3, "schedule": "one-cycle", "scale": 50.0}
    one_cycle = replace(symmetric, recipe=replace(symmetric.recipe, **quick))
    fresh = replace(one_cycle, recipe=replace(one_cycle.recipe, fresh=True))
    embedding = replace(fresh, recipe=replace(fresh.recipe, head="embedding"))
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


def reproduce_recipes(out: Path, progress: Progress) -> ResultTable:
    """Train every recipe in `out`, then write the table of how they rank held-out logs."""
    experiment = Experiment(out, progress, heads=plans(), pair_seed=0)
    with exclusive(out):
        require_intact_runs(out)
        pairs = experiment.pairs(MODEL, OUR_HEAD, 0)
        assert isinstance(pairs, TemporalPairs)
        latents = experiment.latents(MODEL)
        pools = logged_pools(latents, pairs.held_out)
        rows, weights = [], {}
        for name in experiment.heads:
            runs = [experiment.head_run(MODEL, name, seed) for seed in SEEDS]
            heads = [read_head(run) for run in runs]
            rho = np.stack([logged_audit({name: HeadCost(head)}, latents, pools)[name].spearman for head in heads])
            errors = np.array([evaluate(head, latents.values, pairs.validation)[1] for head in heads])
            low, high = paired_bootstrap(rho.mean(0)[:, None], resamples=20_000)
            weights |= {run.path.name: run.sha256["weights.safetensors"] for run in runs}
            rows.append(
                TableRow(
                    cost=name,
                    model=MODEL,
                    n=len(pools.goals),
                    ours={"rho_logged": float(rho.mean()), "validation_rmse": float(errors.mean())},
                    interval={"rho_logged": [float(low[0]), float(high[0])]},
                    paper=None,
                    extra={
                        "per_seed": [round(float(mean), 4) for mean in rho.mean(1)],
                        "std": round(mean_std(rho.mean(1))[1], 4),
                    },
                )
            )
        made = {**provenance(experiment, COMMAND), "weights_sha256": weights}
        table = ResultTable("tworoom-recipes", NOTE, ("rho_logged", "validation_rmse"), rows, made)
        table.write(out)
    return table
