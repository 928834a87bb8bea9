"""Comparison of a head with a constant: whether it learned anything about its labels.

Errors are losses of the recipe itself, because a head that leans to short times has a large RMSE by design, and so has
the best constant for its loss. Intervals resample the validation episodes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from reachcost.core.arrays import row_reader
from reachcost.errors import ReachcostWarning
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import Pairs, PairSet
from reachcost.results.stats import cluster_bootstrap

MIN_EPISODES = 5  # fewest held-out episodes for an interval: resampling fewer mostly repeats them
MIN_PAIRS, SAFE_PAIRS = 2_000, 10_000  # below the first heads vary by chance, the second is safe (docs/repair.md)


@torch.no_grad()
def constant_reference(head: LearnedHead, pairs: Pairs, recipe: Recipe) -> dict[str, Any]:
    """The best constant for the validation pairs, compared with a head, as JSON values.

    `remaining` is the loss of the head divided by that of the constant, with its interval over `episodes`.
    """
    held_out, read = pairs.validation, row_reader(pairs.latents)
    target = held_out.gap / head.scale
    predicted = head.scaled(read(held_out.first), read(held_out.second))
    value = best_constant(held_out, recipe, head.scale)
    losses = [recipe.losses(guess, target) for guess in (predicted, torch.full_like(target, value / head.scale))]
    columns = torch.stack(losses, dim=1).double().numpy()
    episodes = pairs.logs.episode_of(held_out.first.numpy())
    interval = cluster_bootstrap(columns, episodes, _share)
    return {
        "episodes": len(np.unique(episodes)),
        "held_out": bool(pairs.record.get("held_out_episodes")),
        "constant": {
            "value": round(value, 4),
            "loss": float(columns[:, 1].mean()),
            "rmse": (torch.full_like(held_out.gap, value) - held_out.gap).square().mean().sqrt().item(),
        },
        "remaining": float(_share(columns.sum(0, keepdims=True))[0]),
        "remaining_interval": [float(bound) for bound in interval],
    }


def best_constant(pairs: PairSet, recipe: Recipe, scale: float) -> float:
    """The constant prediction with the lowest loss on these pairs, in units of the label."""
    target = pairs.gap / scale
    low, high = float(target.min()), float(target.max())
    if low == high or recipe.loss == "ranking":  # all constants have the same ranking loss
        return float(target.mean()) * scale
    found: Any = minimize_scalar(
        lambda guess: recipe.losses(torch.full_like(target, guess), target).mean().item(),
        bounds=(low, high),
        method="bounded",
    )
    return float(found.x) * scale


def warning_for(record: Mapping[str, Any]) -> str:
    """Why the record of a head does not show that it learned anything; empty if it does, or is a shuffled control."""
    found = record.get("references")
    if found is None or not found["held_out"] or record.get("pairs", {}).get("labels") == "shuffled":
        return ""
    remedy = "log more episodes or train longer, and audit it before use"
    if found["episodes"] < MIN_EPISODES:
        count = "one held-out episode" if found["episodes"] == 1 else f"{found['episodes']} held-out episodes"
        return f"the head is validated on {count}, too few to tell whether it learned anything: {remedy}"
    if (count := record["pairs"]["train_pairs"]) < MIN_PAIRS:
        return (
            f"the head learned from {count} pairs an epoch, so its quality varies by chance: give {SAFE_PAIRS:,} or "
            "more (pairs=, --pairs)"
        )
    if found["remaining_interval"][1] >= 1:
        low, high = (f"{100 * bound:.0f}" for bound in found["remaining_interval"])
        return (
            f"the head leaves {low} to {high} % of the error of a constant on {found['episodes']} held-out episodes, "
            f"so nothing shows that it is better than a constant: {remedy}"
        )
    return ""


def warn_if_uninformed(head: LearnedHead, stacklevel: int = 2) -> None:
    """Warn if the record of the head does not show that it learned anything."""
    if found := warning_for(head.record):
        warnings.warn(found, ReachcostWarning, stacklevel=stacklevel + 1)


def _share(sums: np.ndarray) -> np.ndarray:
    """Sums of both losses [N, 2] to the first divided by the second [N]; 1 where the second is 0."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.ones(len(sums)), where=sums[:, 1] > 0)
