"""Compare heads on held-out logs: how each ranks states, and its error."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from reachcost.core.progress import Progress
from reachcost.costs.checks import require_one_model
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.fitting.logged_audit import TooFewGoals, logged_audit
from reachcost.fitting.pools import largest_pools
from reachcost.heads.base import LearnedHead
from reachcost.labels.directed import in_order
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.stats import cluster_bootstrap, clustered_mean
from reachcost.results.tables import ResultTable, TableRow

PAIRS = 10_000
BASELINE, FLOOR = "raw", "mean-gap"
NOTE = (
    "ρ is the mean rank correlation with the fastest logged path to n goals; intervals resample episodes of goals. "
    f"RMSE is in steps, on {PAIRS:,} pairs of the same logs, from the earlier row to the later one; a head with a low "
    "expectile has a larger RMSE by design. `raw` is latent distance, `mean-gap` predicts the mean gap for every pair."
)


def compare_heads(
    heads: Mapping[str, LearnedHead],
    model: WorldModel,
    logs: Logs,
    *,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> ResultTable:
    """Compare heads of one world model on logs that no head was fitted on.

    Args:
        heads: Heads by name.
        model: The world model of all heads.
        logs: Held-out logs.
        seed: Seed of goals and pairs.
        progress: True shows progress.

    >>> from reachcost import Recipe, make_task, repair
    >>> from reachcost.tasks import ExactTopoNav
    >>> task, model = make_task("toponav"), ExactTopoNav()
    >>> head = repair(model, task.generate_logs(100), pairs=5000, recipe=Recipe(epochs=2))
    >>> table = compare_heads({"mine": head}, model, task.generate_logs(60, seed=1))
    >>> [row.cost for row in table.rows]
    ['mine', 'raw', 'mean-gap']
    """
    _require_unseen(heads, logs)
    costs: dict[str, TerminalCost] = {name: HeadCost(head) for name, head in heads.items()}
    require_one_model(costs, model)
    latents = encode_logs(model, logs, progress=progress)
    ranked, goals = _ranked({**costs, BASELINE: LatentMSE()}, latents, seed)
    errors, episodes = _squared_errors(heads, latents, seed)
    rows = []
    for name in (*costs, BASELINE, FLOOR):
        ours: dict[str, float] = {}
        interval: dict[str, list[float]] = {}
        if name in ranked:
            ours["rho_logged"] = float(ranked[name].mean())
            interval["rho_logged"] = list(clustered_mean(ranked[name], goals))
        if name in errors:
            ours["validation_rmse"] = float(np.sqrt(errors[name].mean()))
            columns = np.stack([errors[name], np.ones(len(errors[name]))], axis=1)
            interval["validation_rmse"] = cluster_bootstrap(columns, episodes, _root_mean).tolist()
        rows.append(TableRow(name, "", len(goals), ours, interval, None))
    return ResultTable("heads", NOTE, ("rho_logged", "validation_rmse"), rows, {"logs_sha256": logs.fingerprint})


def _require_unseen(heads: Mapping[str, LearnedHead], logs: Logs) -> None:
    if not isinstance(heads, Mapping) or not heads:
        raise ReachcostError("there are no heads to compare: give heads={name: head}")
    for name, head in heads.items():
        if not isinstance(head, LearnedHead) or name in (BASELINE, FLOOR):
            raise ReachcostError(
                f"head {name!r} is a {type(head).__name__}: give a fitted head, not named {BASELINE} or {FLOOR}"
            )
        if head.record.get("pairs", {}).get("logs_sha256") == logs.fingerprint:
            raise ReachcostError(f"head {name!r} was fitted on these very logs: give logs that no head has seen")


def _ranked(costs: Mapping[str, TerminalCost], latents: Latents, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rank correlations of each cost by goal [G], and the episodes of the goals [G]."""
    try:
        pools = largest_pools(latents, np.arange(len(latents.logs)), seed)
    except TooFewGoals as error:
        raise ReachcostError(
            f"{len(latents.logs)} episodes are too few to rank states by logged times: give more held-out episodes"
        ) from error
    found = {name: ranking.spearman for name, ranking in logged_audit(costs, latents, pools).items()}
    return {**found, FLOOR: np.zeros(len(pools.goals))}, latents.logs.episode_of(pools.goals)


@torch.no_grad()
def _squared_errors(
    heads: Mapping[str, LearnedHead], latents: Latents, seed: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Squared errors of each head on new pairs [P], and the episodes of the pairs [P]."""
    pairs = in_order(TemporalPairs(latents, count=1, validation=PAIRS, seed=seed).validation)
    first, second = latents.values[pairs.first], latents.values[pairs.second]
    predicted = {name: head(first, second) for name, head in heads.items()}
    predicted[FLOOR] = pairs.gap.mean().expand_as(pairs.gap)
    errors = {name: (values - pairs.gap).double().square().numpy() for name, values in predicted.items()}
    return errors, latents.logs.episode_of(pairs.first.numpy())


def _root_mean(sums: np.ndarray) -> np.ndarray:
    return np.sqrt(sums[:, 0] / sums[:, 1])
