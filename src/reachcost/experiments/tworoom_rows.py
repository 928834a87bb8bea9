"""From recorded TwoRoom runs to lines of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from reachcost.audits.sasc import Ranking, compare_rankings
from reachcost.errors import ReachcostError
from reachcost.experiments.tables import TableRow
from reachcost.experiments.tworoom import SASC_CANDIDATES, Experiment, Setting
from reachcost.experiments.tworoom_paper import OUTCOMES
from reachcost.records import Run, require_rows
from reachcost.stats import hierarchical_bootstrap, mean_std, wilson

SEEDS = (3072, 3073, 3074)
RESAMPLES = 20_000
BINS = ((120, 140), (140, 160), (160, 180), (180, 205))
"""Geodesic distance from start to goal, in pixels."""
SASC_COSTS = (
    "raw",
    "standardized-l2",
    "linear",
    "mahalanobis",
    "decoded-xy",
    "decoded-geodesic",
    "trm",
    "trm-paper",
    "trm-complete",
    "trm-symmetric",
    "hybrid",
    "geodesic-mlp",
    "geodesic-ranking",
    "shuffled",
)
"""Costs that score the shared pools."""
BOUNDS = ("oracle", "random")
"""Ceiling and floor: they use no world model."""
Values = dict[str, np.ndarray]
"""Metric to values [runs, episodes]."""


@dataclass(frozen=True)
class Line:
    """A line of a table: one cost on some world models."""

    kind: str
    """lewm or pldm."""
    cost: str
    """The terminal cost, as the experiment knows it."""
    paper: Mapping[str, float] | None = None
    """What the paper prints."""
    seeds: tuple[int, ...] = SEEDS
    """Seeds of the world models."""
    head_seeds: tuple[int | None, ...] = (None,)
    """Seeds of the heads on each of them."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the default `Setting`."""
    setting: str = ""
    """What the table says about it."""
    shown: str = ""
    """What the table calls the cost, if it is another name."""
    single: bool = False
    """Whether the line stands for its one seed, not for a mean."""


def table_row(experiment: Experiment, line: Line, metrics: Sequence[str]) -> TableRow:
    """Run what is missing for a line, and measure it."""
    settings = [
        Setting(f"{line.kind}-tworoom-{seed}", line.cost, head_seed, **line.changes)
        for seed in line.seeds
        for head_seed in line.head_seeds
    ]
    values = _measured(experiment, settings, metrics)
    if {"rho_geo", "rank"} & set(metrics) and line.cost != "random":
        values |= _ranked(experiment, line)
    values = {metric: values[metric] for metric in metrics if metric in values}
    extra: dict[str, Any] = {"runs": [setting.name for setting in settings]}
    if len(settings) > 1:
        extra["per_run"] = {m: [round(float(mean), 4) for mean in v.mean(1)] for m, v in values.items()}
        extra["std"] = {m: round(mean_std(_by_model(v, line).mean(1))[1], 4) for m, v in values.items()}
    return TableRow(
        cost=line.shown or line.cost,
        model="simulator" if line.cost in BOUNDS else line.kind,
        n=values["success"].size if "success" in values else next(iter(values.values())).size,
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval={metric: interval(metric, value) for metric, value in values.items()},
        paper=line.paper,
        seed=line.seeds[0] if line.single else None,
        setting=line.setting,
        extra=extra,
    )


def per_seed(line: Line, papers: Sequence[Mapping[str, float]] | None = None) -> list[Line]:
    """One line for each world model of a line."""
    return [
        replace(line, seeds=(seed,), paper=papers[number] if papers else None, single=True)
        for number, seed in enumerate(line.seeds)
    ]


def bounds(lines: Sequence[Line]) -> list[Line]:
    """Floor and ceiling of every protocol among some lines."""
    kept = ("evaluation", "budget")
    protocols = {tuple(line.changes.get(key) for key in kept): line for line in lines}
    return [
        Line(
            "lewm",
            cost,
            seeds=line.seeds,
            changes={key: line.changes[key] for key in kept if key in line.changes},
            setting=line.setting if len(protocols) > 1 else "",
            single=line.single,
        )
        for line in protocols.values()
        for cost in BOUNDS
    ]


def interval(metric: str, values: np.ndarray) -> list[float]:
    """95 % interval of the mean of values [runs, episodes]; Wilson for shares of a single run or without variation."""
    share = metric in OUTCOMES or metric.startswith("geo_")
    if share and (len(values) == 1 or values.min() == values.max()):
        episodes = values.shape[1]  # runs repeat the same episodes, so they add no trials
        return [100 * bound for bound in wilson(round(values.mean() / 100 * episodes), episodes)]
    return hierarchical_bootstrap(values[..., None], resamples=RESAMPLES)[:, 0].tolist()


def _by_model(values: np.ndarray, line: Line) -> np.ndarray:
    """Values [runs, episodes] with the heads of each world model side by side: [models, heads * episodes]."""
    return values.reshape(len(line.seeds) if len(values) > 1 else 1, -1)


def _measured(experiment: Experiment, settings: Sequence[Setting], metrics: Sequence[str]) -> Values:
    """Outcome metrics of closed-loop runs."""
    evaluation = experiment.evaluation(settings[0].evaluation)
    layout, starts, goals = experiment.task.layout, evaluation.starts, evaluation.goals
    same = np.asarray(layout.room(starts) == layout.room(goals))
    distance = experiment.task.distance(starts, goals)
    runs = [experiment.control_run(setting) for setting in settings]
    keys = {"cost": [settings[0].cost], "episode": evaluation.episodes.tolist()}
    read = [require_rows(run, keys, ("success", "final_distance")) for run in runs]
    success = 100 * np.stack([rows["success"][0] for rows in read])
    categories = np.stack([_categories(run, evaluation.episodes) for run in runs])
    values: Values = {
        "success": success,
        "same": success[:, same],
        "cross": success[:, ~same],
        "wrong_room": 100.0 * (categories == "wrong_room"),
        "stuck": 100.0 * (categories == "stuck"),
        "distance": np.stack([rows["final_distance"][0] for rows in read]),
    }
    for low, high in BINS:
        # The last bin is closed: a set's largest distance belongs to it.
        inside = (distance >= low) & ((distance < high) | (high == BINS[-1][1]))
        if inside.any():
            values[f"geo_{low}_{high}"] = success[:, inside]
    return values


def _categories(run: Run, episodes: np.ndarray) -> np.ndarray:
    table = run.table()
    by_episode = dict(zip(table["episode"].to_pylist(), table["category"].to_pylist(), strict=True))
    return np.array([by_episode[episode] for episode in episodes.tolist()])


def _ranked(experiment: Experiment, line: Line) -> Values:
    """Ranking metrics of SASC; one head for each world model."""
    found = [rankings(experiment, f"{line.kind}-tworoom-{seed}", seed)[line.cost] for seed in line.seeds]
    return {
        "rho_geo": np.stack([ranking.spearman for ranking in found]),
        "rank": np.stack([ranking.oracle_best_rank for ranking in found]),
    }


@cache
def rankings(experiment: Experiment, model: str, seed: int) -> dict[str, Ranking]:
    """How every cost ranks the shared pools of a world model, with the heads of one seed."""
    run = experiment.sasc_run(model, SASC_COSTS, seed)
    episodes = experiment.evaluation("high-distance").episodes.tolist()
    keys = {"cost": list(SASC_COSTS), "episode": episodes, "candidate": list(range(SASC_CANDIDATES))}
    rows = require_rows(run, keys, ("score", "diagnostic"))
    diagnostic = rows["diagnostic"][0]
    if (rows["diagnostic"] != diagnostic).any():
        raise ReachcostError(f"{run.path} has different diagnostic costs for one candidate: remove it and run again")
    return compare_rankings({**dict(zip(SASC_COSTS, rows["score"], strict=True)), "oracle": diagnostic}, diagnostic)
