"""Lines of the paper's tables about the probe's rowspace, what a head makes of it, and a head's features."""

from __future__ import annotations

from typing import cast

from reachcost.audits.features import FeaturesOnly, swap_consistency
from reachcost.audits.sasc import compare_rankings
from reachcost.audits.subspace import attribute, rowspace_share
from reachcost.costs.head import HeadCost
from reachcost.experiments import tworoom_audits_paper as paper
from reachcost.experiments.recorder import read_head
from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_audits import Rows, audit_row, lewm, shared_pool
from reachcost.experiments.tworoom_rows import SEEDS, Line, bounds, table_row
from reachcost.experiments.tworoom_tables import CONTROLLED
from reachcost.heads.pair import PairHead


def subspace_rows(experiment: Experiment) -> Rows:
    """Planning with the rowspace or the residual alone, and how little of the distance lies in the rowspace."""
    near = "distance-controlled set"
    lines = [
        Line("lewm", cost, {"success": printed[number]}, (seed,), changes=CONTROLLED, setting=near, single=True)
        for cost, printed in paper.SUBSPACE.items()
        for number, seed in enumerate(SEEDS)
    ]
    far = [Line("lewm", cost, setting="high-distance set") for cost in paper.SUBSPACE]
    lines += [*far, *bounds([Line("lewm", "raw", changes=CONTROLLED, setting=near), far[0]])]
    rows = [table_row(experiment, line, ("success",)) for line in lines]
    for number, seed in enumerate(SEEDS):
        terminal, goal, _ = shared_pool(experiment, seed)
        share = 100 * rowspace_share(experiment.probe(lewm(seed)), terminal, goal).numpy()[None]
        printed = {"mse_share": 100 * paper.MSE_SHARE[number]}
        rows.append(audit_row("rowspace", seed, {"mse_share": share}, printed, "share of latent MSE"))
    return rows


def attribution_rows(experiment: Experiment) -> Rows:
    """What a head makes of the projected differences, and where its gradient points."""
    rows = []
    for cost in ("trm-paper", "trm"):
        for number, seed in enumerate(SEEDS):
            terminal, goal, geodesic = shared_pool(experiment, seed)
            head = read_head(experiment.head_run(lewm(seed), cost, seed))
            found = attribute(head, experiment.probe(lewm(seed)), terminal, goal)
            scores = {"full": found.full, "rowspace": found.rowspace, "residual": found.residual}
            ranked = compare_rankings({name: score.numpy() for name, score in scores.items()}, geodesic)
            for name, ranking in ranked.items():
                values = {"rho_geo": ranking.spearman[None], "rank": ranking.oracle_best_rank[None]}
                if name == "full":
                    values["gradient_share"] = 100 * found.gradient_share.numpy()[None]
                printed = paper.ATTRIBUTION[number][name] if cost == "trm-paper" else None
                rows.append(audit_row(cost, seed, values, printed, f"{name} difference"))
    return rows


def features_rows(experiment: Experiment) -> Rows:
    """The paper's head with some of its features, and in both orders."""
    rows = []
    for number, seed in enumerate(SEEDS):
        terminal, goal, geodesic = shared_pool(experiment, seed)
        head = cast(PairHead, read_head(experiment.head_run(lewm(seed), "trm-paper", seed)))
        costs = {
            "absolute difference only": FeaturesOnly(head, ("absolute",)),
            "both differences only": FeaturesOnly(head, ("difference", "absolute")),
            "all features": HeadCost(head),
            "both orders averaged": HeadCost(head.symmetrised()),
        }
        scores = {name: cost(terminal, goal).numpy() for name, cost in costs.items()}
        swap = swap_consistency(head, terminal, goal)
        for place, (name, ranking) in enumerate(compare_rankings(scores, geodesic).items()):
            values = {"rho_geo": ranking.spearman[None], "rank": ranking.oracle_best_rank[None]}
            printed = dict(paper.FEATURES[place][number])
            if name == "all features":
                values["swap_steps"] = swap.difference.numpy()[None]
                values["swap_percent"] = 100 * values["swap_steps"] / swap.magnitude.mean().item()
                printed |= paper.SWAP[number]
            rows.append(audit_row("trm-paper", seed, values, printed, name))
    return rows
