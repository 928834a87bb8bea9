"""The paper's audit tables of TwoRoom: candidate ranking, probe, subspace, attribution, features, labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.features import FeaturesOnly, swap_consistency
from reachcost.audits.probe import fit_probe, score_probe
from reachcost.audits.sasc import compare_rankings, execute, gaussian_pools, to_goals
from reachcost.audits.subspace import attribute, rowspace_share
from reachcost.audits.temporal import label_quality
from reachcost.costs import HeadCost
from reachcost.experiments import tworoom_audits_paper as paper
from reachcost.experiments.recorder import read_head
from reachcost.experiments.tables import ResultTable, TableRow
from reachcost.experiments.tworoom import HEADS, Experiment
from reachcost.experiments.tworoom_rows import SASC_COSTS, SEEDS, Line, bounds, interval, table_row
from reachcost.experiments.tworoom_tables import CONTROLLED, INTERVALS, provenance
from reachcost.heads.pair import PairHead
from reachcost.progress import Progress
from reachcost.records import exclusive, require_intact_runs
from reachcost.seeding import generator

Rows = list[TableRow]


@dataclass(frozen=True)
class AuditSpec:
    """A table: what it is about, its columns, and what makes its lines."""

    note: str
    metrics: tuple[str, ...]
    rows: Callable[[Experiment], Rows]


def _row(cost: str, seed: int | None, values: dict[str, np.ndarray], printed: dict[str, float] | None, n: int) -> TableRow:
    """A line from values of each metric [models, episodes]."""
    return TableRow(
        cost=cost,
        model="lewm",
        n=n,
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval={metric: interval(metric, value) for metric, value in values.items() if value.size > 1},
        paper=printed,
        seed=seed,
    )


def sasc_rows(experiment: Experiment) -> Rows:
    """Every cost on the shared pools: seed 3072 as in the paper, then the mean over world models."""
    rankings = {seed: experiment.rankings(_model(seed), SASC_COSTS, seed) for seed in SEEDS}
    euclidean = {seed: experiment.rankings(_model(seed), SASC_COSTS, seed, "euclidean") for seed in SEEDS}
    rows = []
    for seeds in (SEEDS[:1], SEEDS):
        for cost in (*SASC_COSTS, "oracle"):
            values = {
                "rho_euclid": np.stack([euclidean[seed][cost].spearman for seed in seeds]),
                "rho_geo": np.stack([rankings[seed][cost].spearman for seed in seeds]),
                "rank": np.stack([rankings[seed][cost].oracle_best_rank for seed in seeds]),
                "selected": np.stack([rankings[seed][cost].selected_distance for seed in seeds]),
            }
            single = len(seeds) == 1
            printed = paper.SASC.get(cost) if single else None
            rows.append(_row(cost, seeds[0] if single else None, values, printed, values["rank"].size))
    return rows


def probe_rows(experiment: Experiment) -> Rows:
    """The paper's split of rows, and one of whole episodes."""
    rows, logs = [], experiment.logs
    for split in ("rows", "episodes"):
        for seed in SEEDS:
            latents = experiment.latents(_model(seed)).values
            order = generator(0, "probe").permutation(logs.rows)[:20_000]
            if split == "episodes":
                episodes = generator(0, "probe-episodes").permutation(len(logs))
                held_out = np.isin(logs.episode_of(order), episodes[: len(episodes) // 5])
                order = np.concatenate([order[~held_out], order[held_out]])
            fitted, held = order[:16_000], order[16_000:]
            states = logs.columns["state"]
            score = score_probe(fit_probe(latents[fitted], states[fitted]), latents[held], states[held])
            rows.append(
                TableRow(
                    cost="probe",
                    model="lewm",
                    n=len(held),
                    ours={"rmse": score.rmse, "r2": score.r2},
                    interval={},
                    paper=dict(zip(("rmse", "r2"), paper.PROBE[seed], strict=True)) if split == "rows" else None,
                    seed=seed,
                    setting=f"{split} split",
                )
            )
    return rows


def _model(seed: int) -> str:
    return f"lewm-tworoom-{seed}"


def _pool(experiment: Experiment, seed: int) -> tuple[Tensor, Tensor, np.ndarray]:
    """Predicted ends [E, S, D], goals [E, D] and true geodesic distances [E, S] of the shared pools."""
    task, model, evaluation = experiment.task, experiment.model(_model(seed)), experiment.evaluation("high-distance")
    pools = gaussian_pools(evaluation, model.action_dim)
    start, goal = (model.encode(task.observe(states)) for states in (evaluation.starts, evaluation.goals))
    terminal = model.rollout(start[:, None], torch.from_numpy(pools))
    ends = execute(task, evaluation, model.actions.unroll(pools))
    return terminal, goal, to_goals(task.distance, ends, evaluation)


def subspace_rows(experiment: Experiment) -> Rows:
    """Planning with the rowspace or the residual alone, and how little of the distance lies in the rowspace."""
    lines = [
        Line("lewm", cost, {"success": printed[number]}, (seed,), changes=CONTROLLED, single=True)
        for number, seed in enumerate(SEEDS)
        for cost, printed in paper.SUBSPACE.items()
    ]
    rows = [table_row(experiment, line, ("success",)) for line in (*lines, *bounds([Line("lewm", "raw", changes=CONTROLLED)]))]
    for number, seed in enumerate(SEEDS):
        terminal, goal, _ = _pool(experiment, seed)
        share = rowspace_share(experiment.probe(_model(seed)), terminal, goal).numpy()[None]
        rows.append(_row("rowspace", seed, {"mse_share": share}, {"mse_share": paper.MSE_SHARE[number]}, share.size))
    return rows


def attribution_rows(experiment: Experiment) -> Rows:
    """What a head makes of the projected differences, and where its gradient points."""
    rows = []
    for cost in ("trm-paper", "trm"):
        for number, seed in enumerate(SEEDS):
            terminal, goal, geodesic = _pool(experiment, seed)
            head = read_head(experiment.head_run(_model(seed), cost, seed))
            found = attribute(head, experiment.probe(_model(seed)), terminal, goal)
            scores = {"full": found.full, "rowspace": found.rowspace, "residual": found.residual}
            ranked = compare_rankings({name: score.numpy() for name, score in scores.items()}, geodesic)
            printed = paper.ATTRIBUTION[number] if cost == "trm-paper" else None
            for name, ranking in ranked.items():
                values = {"rho_geo": ranking.spearman[None], "rank": ranking.oracle_best_rank[None]}
                if name == "full":
                    values["gradient_share"] = 100 * found.gradient_share.numpy()[None]
                row = _row(cost, seed, values, printed and printed[name], geodesic.shape[0])
                rows.append(_with_setting(row, f"{name} difference"))
    return rows


def features_rows(experiment: Experiment) -> Rows:
    """The paper's head with some of its features, and in both orders."""
    rows = []
    for number, seed in enumerate(SEEDS):
        terminal, goal, geodesic = _pool(experiment, seed)
        head = cast(PairHead, read_head(experiment.head_run(_model(seed), "trm-paper", seed)))
        costs = {
            "|z - g| only": FeaturesOnly(head, ("absolute",)),
            "z - g and |z - g| only": FeaturesOnly(head, ("difference", "absolute")),
            "all features": HeadCost(head),
            "all features, both orders averaged": HeadCost(head.symmetrised()),
        }
        scores = {name: cost(terminal, goal).numpy() for name, cost in costs.items()}
        swap = swap_consistency(head, terminal, goal)
        for place, (name, ranking) in enumerate(compare_rankings(scores, geodesic).items()):
            values = {"rho_geo": ranking.spearman[None], "rank": ranking.oracle_best_rank[None]}
            printed: dict[str, float] = dict(paper.FEATURES[place][number])
            if name == "all features":
                values["swap_steps"] = np.array([[swap.difference]])
                values["swap_percent"] = np.array([[100 * swap.difference / swap.magnitude]])
                printed |= paper.SWAP[number]
            rows.append(_with_setting(_row("trm-paper", seed, values, printed, geodesic.shape[0]), name))
    return rows


def temporal_rows(experiment: Experiment) -> Rows:
    """Logged gaps against the true distance."""
    pairs = experiment.pairs(_model(SEEDS[0]), HEADS["trm-paper"], SEEDS[0]).train
    states = experiment.logs.columns["state"]
    first, second = (states[rows.numpy()] for rows in (pairs.first, pairs.second))
    layout = experiment.task.layout
    quality = label_quality(
        pairs.gap.numpy().astype(float), experiment.task.distance(first, second), layout.doorway_required(first, second)
    )
    return [
        TableRow(
            cost="temporal labels",
            model="logs",
            n=found.pairs,
            ours={"pearson": found.pearson, "spearman": found.spearman},
            interval={},
            paper=dict(zip(("pairs", "pearson", "spearman"), paper.TEMPORAL_GEODESIC[name], strict=True)),
            setting=name,
        )
        for name, found in quality.items()
    ]


def _with_setting(row: TableRow, setting: str) -> TableRow:
    return TableRow(**{**row.__dict__, "setting": setting})


AUDITS: dict[str, AuditSpec] = {}
"""Filled with the tables when their figures and verdicts are in."""


def reproduce_audit(name: str, out: Path, progress: Progress, **smaller: Any) -> ResultTable:
    """Run what is missing in `out`, then write one audit table."""
    spec, command = AUDITS[name], f"reachcost reproduce {name}"
    experiment = Experiment(out, progress, **smaller)
    with exclusive(out):
        require_intact_runs(out)
        rows: Sequence[TableRow] = spec.rows(experiment)
        note = f"{spec.note} {INTERVALS} Made by `{command}`."
        table = ResultTable(name, note, spec.metrics, rows, provenance(experiment, command))
        table.write(out)
    return table
