"""Lines of the paper's tables about the probe's rowspace, what a head makes of it, and a head's features."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, product
from pathlib import Path
from typing import Any, cast

import numpy as np

from reachcost.audits.features import FeaturesOnly, swap_consistency
from reachcost.audits.subspace import attribute, rowspace_share
from reachcost.costs.head import HeadCost
from reachcost.heads.pair import PairHead
from reachcost.results.ranking import compare_rankings
from reachcost.results.records import Columns, require_rows
from reachcost.results.tables import TableRow
from reachcost.studies.cells.waiting import every, row_of_runs
from reachcost.studies.experiment import Experiment
from reachcost.studies.lines import Line, bounds, metric_row, table_row
from reachcost.studies.study import Member
from reachcost.studies.tworoom import paper_audits as paper
from reachcost.studies.tworoom.control import CONTROLLED
from reachcost.studies.tworoom.settings import FAR_SET, LEWM, NEAR_SET, SEEDS


def subspace_rows(experiment: Experiment) -> list[TableRow]:
    """Planning with the rowspace or the residual alone, and how little of the distance lies in the rowspace."""
    lines, raws = [], []
    for name, label in CONTROLLED.items():
        setting = ", ".join(filter(None, ("distance-controlled set", label)))
        changes = {"changes": {"evaluation": name}, "setting": setting}
        lines += [
            Line("lewm", cost, {"success": printed[number]}, (seed,), single=True, **changes)
            for cost, printed in paper.SUBSPACE.items()
            for number, seed in enumerate(SEEDS)
        ]
        raws.append(Line("lewm", "raw", **changes))
    far = [Line("lewm", cost, setting="high-distance set") for cost in paper.SUBSPACE]
    lines += [*far, *bounds([*raws, far[0]])]
    rows = [table_row(experiment, line, ("success",)) for line in lines]
    sets = {None: "high-distance set", NEAR_SET: "near set", FAR_SET: "far set"}
    return [*rows, *(_share_row(experiment, member, name, sets[name]) for member in LEWM for name in sets)]


@row_of_runs
def _share_row(experiment: Experiment, member: Member, evaluation: str | None, place: str) -> TableRow:
    printed = {"mse_share": 100 * paper.MSE_SHARE[LEWM.index(member)]} if evaluation else None
    values, setting = {"mse_share": _share(experiment, member, evaluation)}, f"share of latent MSE, {place}"
    return metric_row(experiment, "lewm", "rowspace", member.seed, values, printed, setting)


def _share(experiment: Experiment, member: Member, evaluation: str | None) -> np.ndarray:
    """Share of the squared latent difference that lies in the rowspace, in percent [1, episodes]."""
    goals = experiment.evaluation(evaluation)

    def compute(_: Path) -> Columns:
        terminal, goal, _distances = experiment.pool(member, evaluation)
        share = rowspace_share(experiment.probe(member.model), terminal, goal)
        return {"episode": goals.episodes, "mse_share": 100 * share.numpy()}

    config = {**experiment.inputs(member.model), **goals.record}
    run = experiment.run("subspace", f"{member.label}-{evaluation or experiment.study.evaluation}", config, compute)
    return require_rows(run, {"episode": goals.episodes.tolist()}, ("mse_share",))["mse_share"][None]


def _parts(
    experiment: Experiment,
    kind: str,
    member: Member,
    cost: str,
    compute: Callable[[], dict[str, dict[str, np.ndarray]]],
) -> dict[str, dict[str, np.ndarray]]:
    """Record metrics [episodes] of several parts of a cost on the shared pools of a member, and read them back."""
    episodes = experiment.evaluation().episodes

    def rows(_: Path) -> Columns:
        found = compute()
        metrics = dict.fromkeys(metric for values in found.values() for metric in values)
        columns: dict[str, Any] = {
            "part": np.repeat(list(found), len(episodes)),
            "episode": np.tile(episodes, len(found)),
        }
        for metric in metrics:
            missing = np.zeros(len(episodes))
            columns[metric] = np.concatenate([values.get(metric, missing) for values in found.values()])
        return columns

    head = experiment.head_run(member, cost)
    config = {**experiment.inputs(member.model), "cost": cost, "head_sha256": head.sha256["weights.safetensors"]}
    config |= {**experiment.evaluation().record, "candidate_seed": 123}
    run = experiment.run(kind, f"{member.label}-{cost}", config, rows)
    names = run.table().column_names
    parts = list(dict.fromkeys(run.table()["part"].to_pylist()))
    read = require_rows(run, {"part": parts, "episode": episodes.tolist()}, names[2:])
    return {part: {name: read[name][number] for name in names[2:]} for number, part in enumerate(parts)}


def attribution_rows(experiment: Experiment) -> list[TableRow]:
    """What a head makes of the projected differences, and where its gradient points."""
    heads = product(("trm-paper", "trm"), LEWM)
    return [*chain.from_iterable(every(lambda head: _attributed(experiment, *head), heads))]


def _attributed(experiment: Experiment, cost: str, member: Member) -> list[TableRow]:
    def compute() -> dict[str, dict[str, np.ndarray]]:
        terminal, goal, distances = experiment.pool(member)
        found = attribute(experiment.head(member, cost), experiment.probe(member.model), terminal, goal)
        scores = {"full": found.full, "rowspace": found.rowspace, "residual": found.residual}
        ranked = compare_rankings({name: cost.numpy() for name, cost in scores.items()}, distances["oracle"])
        values = {name: {"rho_geo": r.spearman, "rank": r.oracle_best_rank} for name, r in ranked.items()}
        values["full"]["gradient_share"] = 100 * found.gradient_share.numpy()
        return values

    rows = []
    for name, found in _parts(experiment, "attribution", member, cost, compute).items():
        shown = ("rho_geo", "rank", "gradient_share") if name == "full" else ("rho_geo", "rank")
        printed = paper.ATTRIBUTION[LEWM.index(member)][name] if cost == "trm-paper" else None
        values = {metric: found[metric][None] for metric in shown}
        rows.append(metric_row(experiment, "lewm", cost, member.seed, values, printed, f"{name} difference"))
    return rows


def features_rows(experiment: Experiment) -> list[TableRow]:
    """The paper's head with some of its features, and in both orders."""
    return [*chain.from_iterable(every(lambda member: _by_features(experiment, member), LEWM))]


def _by_features(experiment: Experiment, member: Member) -> list[TableRow]:
    def compute() -> dict[str, dict[str, np.ndarray]]:
        terminal, goal, distances = experiment.pool(member)
        head = cast(PairHead, experiment.head(member, "trm-paper"))
        costs = {
            "absolute difference only": FeaturesOnly(head, ("absolute",)),
            "both differences only": FeaturesOnly(head, ("difference", "absolute")),
            "all features": HeadCost(head),
            "both orders averaged": HeadCost(head.symmetrised()),
        }
        scores = {name: cost(terminal, goal).numpy() for name, cost in costs.items()}
        ranked = compare_rankings(scores, distances["oracle"])
        values = {name: {"rho_geo": r.spearman, "rank": r.oracle_best_rank} for name, r in ranked.items()}
        swap = swap_consistency(head, terminal, goal)
        values["all features"]["swap_steps"] = swap.difference.numpy()
        values["all features"]["swap_percent"] = 100 * swap.difference.numpy() / swap.magnitude.mean().item()
        return values

    rows, number = [], LEWM.index(member)
    for place, (name, found) in enumerate(_parts(experiment, "features", member, "trm-paper", compute).items()):
        whole = name == "all features"
        shown = ("rho_geo", "rank", "swap_steps", "swap_percent") if whole else ("rho_geo", "rank")
        printed = {**paper.FEATURES[place][number], **(paper.SWAP[number] if whole else {})}
        values = {metric: found[metric][None] for metric in shown}
        rows.append(metric_row(experiment, "lewm", "trm-paper", member.seed, values, printed, name))
    return rows
