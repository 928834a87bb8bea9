"""Lines of the paper's audit tables that look at rankings, the representation and the labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from reachcost.audits.logged import logged_audit, logged_pools
from reachcost.audits.sasc import correlation, execute, gaussian_pools, roll_out, to_goals
from reachcost.audits.stages import LOGGED_RANKING
from reachcost.audits.temporal import label_quality
from reachcost.base.seeding import generator
from reachcost.data.latents import encode_logs
from reachcost.data.probe import PROBE_ROWS, episode_split, fit_probe, score_probe
from reachcost.experiments import tworoom_audits_paper as paper
from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_rows import SEEDS, interval, measured
from reachcost.experiments.tworoom_settings import HEADS, SASC_GROUPS, Setting
from reachcost.experiments.tworoom_tables import baselines
from reachcost.results.records import Columns, Run, require_rows
from reachcost.results.stats import cluster_bootstrap, hierarchical_bootstrap, paired_bootstrap, sign_flip_test
from reachcost.results.tables import TableRow

Rows = list[TableRow]
BASELINES = SASC_GROUPS["baselines"]
HELD_OUT_LOGS = {"seed": 201, "episodes": 1_000}
"""Logs that no model and no head ever saw."""
GOALS = 200


def audit_row(
    cost: str,
    seed: int | None,
    values: Mapping[str, np.ndarray],
    printed: Mapping[str, float] | None,
    setting: str = "",
) -> TableRow:
    """A line from the values of each metric [models, episodes]."""
    return TableRow(
        cost=cost,
        model="lewm",
        n=max(value.size for value in values.values()),
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval={metric: interval(metric, value) for metric, value in values.items() if value.size > 1},
        paper=printed,
        seed=seed,
        setting=setting,
    )


def lewm(seed: int) -> str:
    """The bundled LeWM of a seed."""
    return f"lewm-tworoom-{seed}"


@lru_cache(maxsize=len(SEEDS))
@torch.no_grad()
def shared_pool(experiment: Experiment, seed: int) -> tuple[Tensor, Tensor, np.ndarray]:
    """Predicted ends [E, S, D], goals [E, D] and true geodesic distances [E, S] of the shared pools."""
    task, model, evaluation = experiment.task, experiment.model(lewm(seed)), experiment.evaluation("high-distance")
    pools = gaussian_pools(evaluation, model.action_dim)
    _, terminal, goal = roll_out(task, model, evaluation, pools)
    return terminal, goal, to_goals(task.distance, execute(task, evaluation, model.actions.unroll(pools)), evaluation)


def sasc_rows(experiment: Experiment) -> Rows:
    """Every cost on the shared pools: seed 3072 as in the paper, then the mean over world models."""
    geodesic = {seed: experiment.rankings(lewm(seed), "baselines", seed) for seed in SEEDS}
    euclidean = {
        seed: experiment.rankings(lewm(seed), "baselines", seed, diagnostic_cost="euclidean") for seed in SEEDS
    }
    rows = []
    for seeds in (SEEDS[:1], SEEDS):
        single = len(seeds) == 1
        for cost in (*BASELINES, "oracle"):
            values = {
                "rho_euclid": np.stack([euclidean[seed][cost].spearman for seed in seeds]),
                "rho_geo": np.stack([geodesic[seed][cost].spearman for seed in seeds]),
                "rank": np.stack([geodesic[seed][cost].oracle_best_rank for seed in seeds]),
                "selected": np.stack([geodesic[seed][cost].selected_distance for seed in seeds]),
            }
            printed = paper.SASC.get(cost) if single else None
            rows.append(audit_row(cost, seeds[0] if single else None, values, printed))
    return rows


def statistics_rows(experiment: Experiment) -> Rows:
    """Paired differences: of rankings over the episodes of one world model, of success over world models."""
    seed = SEEDS[0]
    rankings = experiment.rankings(lewm(seed), "baselines", seed)
    ranked = {
        cost: {"rho_geo": found.spearman, "rank": found.oracle_best_rank, "selected": found.selected_distance}
        for cost, found in rankings.items()
    }
    rows = [_bootstrapped("raw", seed, ranked["raw"], "raw")]
    for cost in ("trm-complete", "trm-paper", "trm"):
        difference = {metric: values - ranked["raw"][metric] for metric, values in ranked[cost].items()}
        rows.append(_bootstrapped(cost, seed, ranked[cost], "trm" if cost == "trm-complete" else None))
        printed = "difference" if cost == "trm-complete" else None
        rows.append(_bootstrapped(f"{cost} minus raw", seed, difference, printed))
    for cost in ("trm-paper", "trm"):
        raw, repaired = (
            measured(experiment, [Setting(lewm(seed), name) for seed in SEEDS])["success"] for name in ("raw", cost)
        )
        gains = repaired - raw
        printed = {"success": float(np.mean(paper.SUCCESS_DIFFERENCES)), "p_value": paper.SIGN_FLIP}
        rows.append(
            TableRow(
                cost=f"{cost} minus raw",
                model="lewm",
                n=gains.size,
                ours={"success": float(gains.mean()), "p_value": sign_flip_test(gains.mean(1))},
                interval={"success": hierarchical_bootstrap(gains, shared=True).tolist()},
                paper=printed if cost == "trm-paper" else None,
                extra={"per_model": gains.mean(1).tolist()},
            )
        )
    return rows


def _bootstrapped(cost: str, seed: int, values: Mapping[str, np.ndarray], printed: str | None) -> TableRow:
    """A line from values of each metric [episodes], resampled together, as the paper does it."""
    low, high = paired_bootstrap(np.stack(list(values.values()), axis=1))
    bounds = {metric: [float(low[place]), float(high[place])] for place, metric in enumerate(values)}
    row = audit_row(cost, seed, {metric: value[None] for metric, value in values.items()}, None)
    if printed is None:
        return replace(row, interval=bounds)
    known = {metric: paper.STATISTICS[metric][printed] for metric in values}
    return replace(
        row,
        interval=bounds,
        paper={metric: mean for metric, (mean, _, _) in known.items()},
        extra={"paper_interval": {metric: [below, above] for metric, (_, below, above) in known.items()}},
    )


def logged_rows(experiment: Experiment) -> Rows:
    """The audit that needs no simulator beside SASC and success, cost by cost, and how far their orders agree."""
    costs = [line.cost for line in baselines() if line.cost in BASELINES]
    audits = [_both_audits(experiment, seed) for seed in SEEDS]
    found: dict[str, dict[str, np.ndarray]] = {}
    for cost in costs:
        ranked = {metric: np.stack([audit[cost][metric] for audit in audits]) for metric in ("rho_logged", "rho_geo")}
        success = measured(experiment, [Setting(lewm(seed), cost) for seed in SEEDS])["success"]
        found[cost] = {**ranked, "success": success}
    found = dict(sorted(found.items(), key=lambda item: item[1]["rho_logged"].mean()))
    rows = [audit_row(cost, None, values, None) for cost, values in found.items()]
    good = [cost for cost, values in found.items() if values["rho_logged"].mean() >= LOGGED_RANKING.threshold]
    rows += [
        _agreement("logs and SASC", found, ("rho_logged", "rho_geo")),
        _agreement("logs and success", found, ("rho_logged", "success")),
        _agreement("SASC and success", found, ("rho_geo", "success")),
        _agreement(
            "logs and success, costs that pass", {cost: found[cost] for cost in good}, ("rho_logged", "success")
        ),
    ]
    return rows


def _agreement(title: str, found: Mapping[str, Mapping[str, np.ndarray]], judges: tuple[str, str]) -> TableRow:
    """A line with the rank correlation of two judges over some costs, mean of the world models."""
    means = [np.stack([values[judge].mean(1) for values in found.values()], axis=1) for judge in judges]
    agreement = correlation(*(rankdata(values, axis=1) for values in means))
    return TableRow(
        cost=title,
        model="lewm",
        n=len(found),
        ours={"agreement": float(agreement.mean())},
        interval={},
        paper=None,
        extra={"per_model": agreement.round(4).tolist()},
    )


def _both_audits(experiment: Experiment, seed: int) -> dict[str, dict[str, np.ndarray]]:
    """Rank correlations with the fastest logged way [goals] and the true distance [episodes], by cost."""
    rankings = experiment.rankings(lewm(seed), "baselines", seed)
    keys = {"cost": list(BASELINES), "goal": list(range(GOALS))}
    logged = require_rows(logged_run(experiment, seed), keys, ("rho_logged",))["rho_logged"]
    return {
        cost: {"rho_logged": logged[place], "rho_geo": rankings[cost].spearman} for place, cost in enumerate(BASELINES)
    }


def logged_run(experiment: Experiment, seed: int) -> Run:
    """Rank logged states of unseen logs with every cost; rows are (cost, goal)."""
    built = {cost: experiment.cost(lewm(seed), cost, seed) for cost in BASELINES}

    def compute(_: Path) -> Columns:
        logs = experiment.task.generate_logs(**HELD_OUT_LOGS)
        latents = encode_logs(experiment.model(lewm(seed)), logs, progress=experiment.progress)
        pools = logged_pools(latents, np.arange(len(logs)), GOALS)
        rankings = logged_audit({name: cost for name, (cost, _) in built.items()}, latents, pools)
        return {
            "cost": np.repeat(BASELINES, GOALS),
            "goal": np.tile(np.arange(GOALS), len(BASELINES)),
            "rho_logged": np.concatenate([found.spearman for found in rankings.values()]),
        }

    costs = {name: origin for name, (_, origin) in built.items()}
    config = {**experiment.inputs(lewm(seed)), "costs": costs, "held_out_logs": HELD_OUT_LOGS, "goals": GOALS}
    return experiment.recorder.run(f"tworoom-logged/lewm-{seed}-head{seed}", config, compute)


def probe_rows(experiment: Experiment) -> Rows:
    """The paper's split of rows, and one of whole episodes."""
    rows, logs = [], experiment.logs
    states, drawn = logs.columns["state"], generator(0, "probe").permutation(logs.rows)[:PROBE_ROWS]
    splits = {
        "split by rows": (drawn[: len(drawn) * 4 // 5], drawn[len(drawn) * 4 // 5 :]),
        "split by episodes": episode_split(logs, PROBE_ROWS),
    }
    for split, (fitted, held) in splits.items():
        for seed in SEEDS:
            latents = experiment.latents(lewm(seed)).values
            probe = fit_probe(latents[fitted], states[fitted])
            score = score_probe(probe, latents[held], states[held])
            printed = paper.PROBE[seed] if split == "split by rows" else None
            rows.append(
                TableRow(
                    cost="probe",
                    model="lewm",
                    n=len(held),
                    ours={"rmse": score.rmse, "r2": score.r2},
                    interval=_probe_interval(
                        probe(latents[held]).numpy() - states[held], states[held], logs.episode_of(held)
                    ),
                    paper=printed,
                    seed=seed,
                    setting=split,
                )
            )
    return rows


def _probe_interval(error: np.ndarray, states: np.ndarray, episodes: np.ndarray) -> dict[str, list[float]]:
    """Intervals of RMSE and R2 when episodes of the scored rows [N] are resampled: errors [N, 2], states [N, 2]."""
    spread = (states - states.mean(0)) ** 2
    columns = np.concatenate([np.ones((len(error), 1)), error**2, spread], axis=1)

    def scores(totals: np.ndarray) -> np.ndarray:
        rmse = np.sqrt(totals[:, 1:3].mean(1) / totals[:, 0])
        return np.stack([rmse, (1 - totals[:, 1:3] / totals[:, 3:]).mean(1)], axis=1)

    low, high = cluster_bootstrap(columns, episodes, scores)
    return {metric: [float(low[place]), float(high[place])] for place, metric in enumerate(("rmse", "r2"))}


def temporal_rows(experiment: Experiment) -> Rows:
    """Logged gaps against the true distance."""
    pairs = experiment.pairs(lewm(SEEDS[0]), HEADS["trm-paper"], SEEDS[0]).train
    states, task = experiment.logs.columns["state"], experiment.task
    first, second = (states[rows.numpy()] for rows in (pairs.first, pairs.second))
    crosses = task.layout.room(first) != task.layout.room(second)
    gaps, episodes = pairs.gap.numpy().astype(float), experiment.logs.episode_of(pairs.first.numpy())
    quality = label_quality(gaps, task.distance(first, second), crosses, episodes)
    printed = {
        name: {"pairs": 100 * count / 100_000, "pearson": pearson, "spearman": spearman}
        for name, (count, pearson, spearman) in paper.TEMPORAL_GEODESIC.items()
    }
    return [
        TableRow(
            cost="temporal labels",
            model="logs",
            n=found.pairs,
            ours={"pairs": 100 * found.pairs / len(pairs), "pearson": found.pearson, "spearman": found.spearman},
            interval={"pearson": found.pearson_interval, "spearman": found.spearman_interval},
            paper=printed[name],
            setting=name,
        )
        for name, found in quality.items()
    ]
