"""Is a head better than nothing? Its validation error beside that of a constant.

Errors are losses of the recipe itself: a head that leans to short times has a large RMSE by design, and so has the best
constant for its loss. Whether the head is better is judged by episodes that it did not learn from, resampled whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from reachcost.core.arrays import row_reader
from reachcost.errors import ReachcostWarning
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import Pairs, PairSet
from reachcost.results.stats import cluster_bootstrap

FEWEST = 5
"""Held-out episodes below which nothing is said about others: resampling fewer repeats most of them."""
FEWEST_PAIRS, ENOUGH_PAIRS = 2_000, 10_000
"""Training pairs of an epoch below which heads come out as chance has it, and what is safe: see docs/repair.md."""


@torch.no_grad()
def beside_constant(head: LearnedHead, pairs: Pairs, recipe: Recipe) -> dict[str, Any]:
    """The error of a head on its validation pairs beside that of the best constant, as JSON values.

    `remaining` is the share of the constant's loss that the head leaves, with its interval over `episodes`.
    """
    judged, read = pairs.validation, row_reader(pairs.latents)
    target = judged.gap / head.scale
    predicted = head.scaled(read(judged.first), read(judged.second))
    value = best_constant(judged, recipe, head.scale)
    losses = [recipe.losses(guess, target) for guess in (predicted, torch.full_like(target, value / head.scale))]
    columns = torch.stack(losses, dim=1).double().numpy()
    episodes = pairs.logs.episode_of(judged.first.numpy())
    interval = cluster_bootstrap(columns, episodes, _share)
    return {
        "episodes": len(np.unique(episodes)),
        "held_out": bool(pairs.record.get("held_out_episodes")),
        "constant": {
            "value": round(value, 4),
            "loss": float(columns[:, 1].mean()),
            "rmse": _rmse(torch.full_like(judged.gap, value), judged.gap),
        },
        "remaining": float(_share(columns.sum(0, keepdims=True))[0]),
        "remaining_interval": [float(bound) for bound in interval],
    }


def best_constant(pairs: PairSet, recipe: Recipe, scale: float) -> float:
    """The one prediction, in units of the label, that a recipe's loss likes best on these pairs."""
    target = pairs.gap / scale
    low, high = float(target.min()), float(target.max())
    if low == high or recipe.loss == "ranking":  # which no constant serves better than another
        return float(target.mean()) * scale
    found: Any = minimize_scalar(
        lambda guess: recipe.losses(torch.full_like(target, guess), target).mean().item(),
        bounds=(low, high),
        method="bounded",
    )
    return float(found.x) * scale


def doubt(record: Mapping[str, Any]) -> str:
    """Why the record of a head does not show that it learned anything; nothing if it does, or was not meant to."""
    found = record.get("references")
    if found is None or not found["held_out"] or record.get("pairs", {}).get("labels") == "shuffled":
        return ""
    remedy = "log more episodes or train longer, and audit it before use"
    if found["episodes"] < FEWEST:
        judges = "one held-out episode" if found["episodes"] == 1 else f"{found['episodes']} held-out episodes"
        return f"the head is validated on {judges}, too few to tell whether it learned anything: {remedy}"
    if (count := record["pairs"]["train_pairs"]) < FEWEST_PAIRS:
        return (
            f"the head learned from {count} pairs an epoch, too few to mean anything: give {ENOUGH_PAIRS:,} or more "
            "(pairs=, --pairs)"
        )
    if found["remaining_interval"][1] >= 1:
        low, high = (f"{100 * bound:.0f}" for bound in found["remaining_interval"])
        return (
            f"the head leaves {low} to {high} % of the error of a constant on {found['episodes']} held-out episodes, "
            f"so it is not seen to be better than one: {remedy}"
        )
    return ""


def warn_if_in_doubt(head: LearnedHead, stacklevel: int = 2) -> None:
    """Say so if logs were too few to tell whether the head learned anything."""
    if found := doubt(head.record):
        warnings.warn(found, ReachcostWarning, stacklevel=stacklevel + 1)


def _share(sums: np.ndarray) -> np.ndarray:
    """Sums of both losses [N, 2] -> what the head leaves of the constant's [N]; all of it where that is none."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.ones(len(sums)), where=sums[:, 1] > 0)


def _rmse(predicted: Tensor, gap: Tensor) -> float:
    return (predicted - gap).square().mean().sqrt().item()
