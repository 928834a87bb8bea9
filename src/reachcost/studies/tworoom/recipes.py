"""How our TwoRoom recipe was chosen: by held-out logs alone.

Every recipe is judged on a tenth of the episodes, which no head was trained on, by its rank correlation with the
fastest logged way (see `reachcost.audits.logged`). That is fair to heads that do not predict the mean, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from reachcost.audits.logged import LoggedPools, logged_audit, logged_pools
from reachcost.costs.head import HeadCost
from reachcost.fitting.fit import evaluate
from reachcost.fitting.pairs import PairSet
from reachcost.fitting.temporal import TemporalPairs
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import mean_std, paired_bootstrap
from reachcost.results.tables import TableRow
from reachcost.studies.experiment import Experiment
from reachcost.studies.study import HeadPlan
from reachcost.studies.tables import TablePlan
from reachcost.studies.tworoom.settings import LEWM, OUR_HEAD, PAPER_HEAD

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


def recipe_rows(experiment: Experiment) -> list[TableRow]:
    """Train every recipe, then see how it ranks held-out logs."""
    compared, member = experiment.variant(name="tworoom-recipes", heads=plans(), pair_seed=0), LEWM[0]

    @cache
    def held_out() -> tuple[PairSet, LoggedPools]:
        pairs = compared.pairs(member, OUR_HEAD, 0)
        assert isinstance(pairs, TemporalPairs)
        return pairs.validation, logged_pools(compared.latents(member.model), pairs.held_out, GOALS)

    rows = []
    for name in plans():
        rho, errors = [], []
        for seed in SEEDS:

            def judge(_: Path, name: str = name, seed: int = seed) -> Columns:
                latents, (pairs, pools) = compared.latents(member.model), held_out()
                head = compared.head(member, name, seed)
                found = logged_audit({name: HeadCost(head)}, latents, pools)[name].spearman
                # The error is one number for each head: it stands in every row.
                error = evaluate(head, latents.values, pairs)[1]
                return {"goal": np.arange(GOALS), "rho_logged": found, "validation_rmse": np.full(GOALS, error)}

            weights = compared.head_run(member, name, seed).sha256["weights.safetensors"]
            config = {**compared.inputs(member.model), "head_sha256": weights, "goals": GOALS}
            run = compared.run("judged", f"{name}-{seed}", config, judge)
            read = require_rows(run, {"goal": list(range(GOALS))}, ("rho_logged", "validation_rmse"))
            rho.append(read["rho_logged"])
            errors.append(read["validation_rmse"][0])
        values = np.stack(rho)
        low, high = paired_bootstrap(values.mean(0)[:, None], resamples=20_000)
        rows.append(
            TableRow(
                cost=name,
                model=member.model,
                n=GOALS,
                ours={"rho_logged": float(values.mean()), "validation_rmse": float(np.mean(errors))},
                interval={"rho_logged": [float(low[0]), float(high[0])]},
                paper=None,
                extra={
                    "per_run": {"rho_logged": [round(float(mean), 4) for mean in values.mean(1)]},
                    "std": {"rho_logged": round(mean_std(values.mean(1))[1], 4)},
                },
            )
        )
    return rows


TABLE = TablePlan(NOTE, ("rho_logged", "validation_rmse"), recipe_rows, intervals="", legend=False)
