"""The TopoNav tables, made from recorded rows alone: the paper's, and how else its text can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.audits.sasc import compare_rankings
from reachcost.base.parallel import one_thread
from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.experiments.toponav import MODEL_NAME, PAPER_HEAD, SHUFFLED_HEAD, Experiment, Settings
from reachcost.results.records import Run, exclusive, require_intact_runs, require_rows
from reachcost.results.stats import hierarchical_bootstrap, mean_std, paired_bootstrap, sign_flip_test, wilson
from reachcost.results.tables import ResultTable, TableRow

METRICS = ("success", "rho_geo", "rank", "final_geo")
PAPER = {
    "raw": {"success": 15.0, "rho_geo": 0.496, "rank": 45.03, "final_geo": 36.18},
    "trm-paper": {"success": 87.5, "rho_geo": 0.848, "rank": 1.29, "final_geo": 3.01},
    "shuffled": {"success": 1.1, "rho_geo": -0.012, "rank": 51.45, "final_geo": 42.35},
    "oracle": {"success": 95.6, "rho_geo": 1.000, "rank": 0.00, "final_geo": 0.08},
}
NOTE = (
    "TopoNav, {episodes} start and goal pairs for each head seed ({seeds}). Success and final graph distance come "
    "from closed-loop control, ρ_geo and oracle best rank from SASC on shared pools. Brackets are 95 % intervals. "
    "Means over head seeds: hierarchical paired bootstrap, {resamples:,} resamples. Single seeds: Wilson for success, "
    "episode bootstrap for the rest. Where all episodes agree the bootstrap has nothing to resample, so success has "
    "the Wilson interval of {episodes} episodes there. Made by `{command}`.\n\n{legend}"
)
TOPONAV_LEGEND = (
    "`trm-paper` is the paper's recipe in our reading of it, `shuffled` its control with permuted labels, `trm` our "
    "recipe. `+tie-break` is a planner that also weighs the state after the first action, by 0.001. `random` is the "
    "floor, `oracle` the ceiling."
)
READINGS = {
    "trm-paper": PAPER_HEAD,
    "trm-printed": replace(PAPER_HEAD, recipe=replace(PAPER_HEAD.recipe, scale=224.0)),
    "trm-printed-256": replace(PAPER_HEAD, recipe=replace(PAPER_HEAD.recipe, scale=224.0, batch_size=256)),
    "shuffled": SHUFFLED_HEAD,
    "shuffled-train": replace(SHUFFLED_HEAD, shuffled="train"),
}
READINGS_LEGEND = (
    "How else the text can be read. `trm-paper`: label scale 29 (the grid), batch 1024. `trm-printed`: the printed "
    "head defaults, scale 224, batch 1024. `trm-printed-256`: scale 224, batch 256. `shuffled`: validation labels "
    "permuted too. `shuffled-train`: only training labels permuted, so true labels choose the epoch."
)


def reproduce_toponav(out: Path, progress: Progress, settings: Settings | None = None) -> ResultTable:
    """Run what is missing in `out`, then write the paper's TopoNav table with ours beside it."""
    return _reproduce(out, progress, settings or Settings(), TOPONAV_LEGEND)


def reproduce_readings(out: Path, progress: Progress) -> ResultTable:
    """Run what is missing in `out`, then write what other readings of the text give."""
    command = "reachcost reproduce toponav-readings"
    settings = Settings(table="toponav-readings", heads=READINGS, tie_broken=(), command=command)
    return _reproduce(out, progress, settings, READINGS_LEGEND)


def _reproduce(out: Path, progress: Progress, settings: Settings, legend: str) -> ResultTable:
    experiment = Experiment(out, settings, progress)
    with exclusive(out), one_thread():
        require_intact_runs(out)
        control_runs = [experiment.control_run(seed) for seed in settings.head_seeds]
        sasc_runs = [experiment.sasc_run(seed) for seed in settings.head_seeds]
        note = NOTE.format(
            episodes=settings.episodes,
            seeds=", ".join(map(str, settings.head_seeds)),
            resamples=settings.resamples,
            command=settings.command,
            legend=legend,
        )
        provenance = {
            "command": settings.command,
            "rows_sha256": {run.path.name: run.sha256["rows.parquet"] for run in (*control_runs, *sasc_runs)},
        }
        rows = aggregate(experiment, control_runs, sasc_runs)
        table = ResultTable(settings.table, note, METRICS, rows, provenance)
        table.write(out)
    return table


def aggregate(experiment: Experiment, control_runs: list[Run], sasc_runs: list[Run]) -> list[TableRow]:
    """Make the lines of the table: means over head seeds (if there are several), then single seeds."""
    values = {**_control_metrics(experiment, control_runs), **_sasc_metrics(experiment, sasc_runs)}
    costs = control_runs[0].manifest["config"]["costs"]
    resamples = experiment.settings.resamples
    seeds = experiment.settings.head_seeds
    rows = []
    if len(seeds) > 1:
        intervals = _intervals(values, lambda stack: hierarchical_bootstrap(stack, resamples=resamples))
        rows = [_row(cost, None, values, intervals, PAPER.get(cost)) for cost in costs]
    for number, seed in enumerate(seeds):
        single = {key: value[number : number + 1] for key, value in values.items()}
        intervals = _intervals(single, lambda stack: paired_bootstrap(stack[0], resamples=resamples))
        # The paper gives means only; they stand beside a single seed where there is no mean of ours.
        beside = PAPER if len(seeds) == 1 else {}
        rows += [_row(cost, seed, single, intervals, beside.get(cost)) for cost in costs]
    return rows


Metrics = dict[tuple[str, str], np.ndarray]
"""(cost, metric) to values [seeds, episodes]."""


def _control_metrics(experiment: Experiment, runs: list[Run]) -> Metrics:
    costs = runs[0].manifest["config"]["costs"]
    keys = {"cost": costs, "episode": experiment.evaluation.episodes.tolist()}
    read = [require_rows(run, keys, ("success", "final_distance")) for run in runs]
    values: Metrics = {}
    for number, cost in enumerate(costs):
        values[cost, "success"] = 100 * np.stack([rows["success"][number] for rows in read])
        values[cost, "final_geo"] = np.stack([rows["final_distance"][number] for rows in read])
    return values


def _sasc_metrics(experiment: Experiment, runs: list[Run]) -> Metrics:
    costs = runs[0].manifest["config"]["costs"]
    candidates = list(range(runs[0].manifest["config"]["candidates"]))
    keys = {"cost": costs, "episode": experiment.evaluation.episodes.tolist(), "candidate": candidates}
    results = []
    for run in runs:
        rows = require_rows(run, keys, ("score", "diagnostic"))
        diagnostic = rows["diagnostic"][0]
        if (rows["diagnostic"] != diagnostic).any():
            raise ReachcostError(
                f"{run.path} has different diagnostic costs for one candidate: remove it and run again"
            )
        results.append(compare_rankings(dict(zip(costs, rows["score"], strict=True)), diagnostic))
    values: Metrics = {}
    for cost in costs:
        values[cost, "rho_geo"] = np.stack([result[cost].spearman for result in results])
        values[cost, "rank"] = np.stack([result[cost].oracle_best_rank for result in results])
    return values


Intervals = dict[tuple[str, str], list[float]]
"""(cost, metric) to lower and upper bound; the metric `success-raw` is the difference in success to raw."""


def _intervals(values: Metrics, bootstrap: Callable[[np.ndarray], np.ndarray]) -> Intervals:
    """Bound every metric, and each cost's difference to raw, from the same resamples."""
    columns = dict(values)
    for cost, metric in values:
        if metric == "success" and cost != "raw":
            columns[cost, "success-raw"] = values[cost, "success"] - values["raw", "success"]
    low, high = bootstrap(np.stack(list(columns.values()), axis=-1))
    return {key: [float(low[number]), float(high[number])] for number, key in enumerate(columns)}


def _row(
    cost: str, seed: int | None, values: Metrics, intervals: Intervals, paper: Mapping[str, float] | None
) -> TableRow:
    metrics = [metric for metric in METRICS if (cost, metric) in values]
    success = values[cost, "success"]
    bounds = {metric: intervals[cost, metric] for metric in metrics}
    if seed is not None or success.min() == success.max():
        episodes = success.shape[1]  # seeds repeat the same pairs, so they add no trials
        bounds["success"] = [100 * bound for bound in wilson(round(success.mean() / 100 * episodes), episodes)]
    extra: dict[str, Any] = {}
    if seed is None:
        extra["per_seed"] = {m: [round(float(mean), 4) for mean in values[cost, m].mean(1)] for m in metrics}
        extra["std"] = {m: round(mean_std(values[cost, m].mean(1))[1], 4) for m in metrics}
        if cost != "raw":
            difference = (success - values["raw", "success"]).mean(1)
            extra["versus_raw"] = {
                "success": round(float(difference.mean()), 4),
                "interval": [round(bound, 4) for bound in intervals[cost, "success-raw"]],
                "sign_flip_p": sign_flip_test(difference),
            }
    return TableRow(
        cost=cost,
        model=MODEL_NAME,
        n=success.size,
        ours={metric: float(values[cost, metric].mean()) for metric in metrics},
        interval=bounds,
        paper=paper,
        seed=seed,
        extra=extra,
    )
