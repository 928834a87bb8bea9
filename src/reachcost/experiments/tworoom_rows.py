"""From recorded TwoRoom runs to lines of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_paper import OUTCOMES
from reachcost.experiments.tworoom_settings import Setting
from reachcost.results.records import Run, require_rows
from reachcost.results.stats import hierarchical_bootstrap, mean_std, wilson
from reachcost.results.tables import TableRow

SEEDS = (3072, 3073, 3074)
RESAMPLES = 20_000
BINS = ((120, 140), (140, 160), (160, 180), (180, 205))
"""Geodesic distance from start to goal, in pixels."""
BOUNDS = ("oracle", "random")
"""Ceiling and floor: they use no world model."""
Values = dict[str, np.ndarray]
"""Metric to values [runs (a model and a head), episodes]."""


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
    group: str = "baselines"
    """The costs that score shared pools with it."""
    single: bool = False
    """Whether the line stands for its one seed, not for a mean."""


def table_row(experiment: Experiment, line: Line, metrics: Sequence[str]) -> TableRow:
    """Run what is missing for a line, and measure it."""
    seed = line.seeds[0] if line.single else None
    settings = [
        Setting(f"{line.kind}-tworoom-{seed}", line.cost, head_seed, **line.changes)
        for seed in line.seeds
        for head_seed in line.head_seeds
    ]
    values = measured(experiment, settings)
    if {"rho_geo", "rank"} & set(metrics) and line.cost != "random":
        values |= _ranked(experiment, line)
    if "validation_rmse" in metrics and line.cost in experiment.heads:
        values["validation_rmse"] = _validation(experiment, settings)
    values = {metric: values[metric] for metric in metrics if metric in values}
    episodes = values["success"].size
    extra: dict[str, Any] = {"runs": [setting.name for setting in settings]}
    if len(settings) > 1:
        extra["per_run"] = {m: [round(float(mean), 4) for mean in v.mean(1)] for m, v in values.items()}
    # Heads on one world model are no independent runs: their mean is one value for each of its episodes.
    values = {m: v.reshape(len(line.seeds), -1, v.shape[1]).mean(1) for m, v in values.items()}
    if len(line.seeds) > 1:
        extra["std"] = {m: round(mean_std(v.mean(1))[1], 4) for m, v in values.items()}
    return TableRow(
        cost=line.shown or line.cost,
        model="simulator" if line.cost in BOUNDS else line.kind,
        n=episodes,
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval={metric: interval(metric, value) for metric, value in values.items() if value.shape[1] > 1},
        paper=line.paper,
        seed=seed,
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
            group=line.group,
            single=line.single,
        )
        for line in protocols.values()
        for cost in BOUNDS
    ]


def interval(metric: str, values: np.ndarray) -> list[float]:
    """95 % interval of the mean of values [models, episodes]; Wilson for shares of one model or without variation."""
    share = metric in OUTCOMES or metric.startswith("geo_")
    if share and (len(values) == 1 or values.min() == values.max()):
        episodes = values.shape[1]  # models repeat the same episodes, so they add no trials
        return [100 * bound for bound in wilson(round(values.mean() / 100 * episodes), episodes)]
    return hierarchical_bootstrap(values[..., None], resamples=RESAMPLES, shared=True)[:, 0].tolist()


def measured(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    """Outcome metrics of closed-loop runs."""
    evaluation = experiment.evaluation(settings[0].evaluation)
    world, starts, goals = experiment.world(settings[0].evaluation), evaluation.starts, evaluation.goals
    same = np.asarray(world.layout.room(starts) == world.layout.room(goals))
    distance = world.distance(starts, goals)
    runs = [experiment.control_run(setting) for setting in settings]
    keys = {"cost": [settings[0].cost], "episode": evaluation.episodes.tolist()}
    read = [require_rows(run, keys, ("success", "final_distance")) for run in runs]
    success = 100 * np.stack([rows["success"][0] for rows in read])
    categories = np.stack([_categories(run, evaluation.episodes) for run in runs])
    values: Values = {
        "success": success,
        **({"same": success[:, same]} if same.any() else {}),
        **({"cross": success[:, ~same]} if not same.all() else {}),
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


def _validation(experiment: Experiment, settings: Sequence[Setting]) -> np.ndarray:
    """Error of the heads on validation pairs, in steps [runs, 1]."""
    heads = [(setting.model, setting.cost, setting.seed_of_head, setting.excluded) for setting in settings]
    return np.array([[experiment.head_record(*head)["validation_rmse"]] for head in heads])


def _ranked(experiment: Experiment, line: Line) -> Values:
    """Ranking metrics of SASC; one head for each world model."""
    evaluation = line.changes.get("evaluation", "high-distance")
    found = [
        experiment.rankings(f"{line.kind}-tworoom-{seed}", line.group, seed, evaluation)[line.cost]
        for seed in line.seeds
    ]
    return {
        "rho_geo": np.stack([ranking.spearman for ranking in found]),
        "rank": np.stack([ranking.oracle_best_rank for ranking in found]),
    }
