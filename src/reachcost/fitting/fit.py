"""Training a head on labelled pairs, and what shows that it learned anything.

The epoch with the lowest validation loss is kept. The head is compared with the best constant and with a head on
shuffled labels. Both are compared by the loss of the recipe: a head that prefers short times has a large RMSE by
design. Intervals resample the validation episodes.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional

from reachcost.core.arrays import row_reader
from reachcost.core.devices import device_of
from reachcost.core.progress import Progress, as_progress
from reachcost.errors import ReachcostError, ReachcostWarning, require_type
from reachcost.fitting.loop import Curve, kept_epoch, train, train_seeded
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import Pairs, PairSet
from reachcost.results.stats import cluster_bootstrap

BUILD_SETTINGS = ("head", "scale", "hidden", "symmetric", "options")  # fields of a recipe that build a head
SHUFFLED_EPOCHS, SHUFFLED_PAIRS = 2, 20_000  # with more, the shuffled head would memorise the permuted labels
MIN_EPISODES = 5  # fewest held-out episodes for an interval: resampling fewer mostly repeats them
MIN_PAIRS, SAFE_PAIRS = 2_000, 10_000  # below the first heads vary by chance, the second is safe (docs/repair.md)


def fit(
    pairs: Pairs,
    recipe: Recipe | None = None,
    *,
    head: LearnedHead | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Train a head on the pairs; deterministic given the seed. `record["references"]` has the error of a constant.

    Args:
        recipe: How the head is built and trained; by default the recipe for labels of this source.
        head: A head to train a copy of, starting from its weights, instead of a new one.
        device: Device for training; `auto` is a GPU if there is one. The returned head is on the CPU.
        progress: True shows progress.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.labels import TemporalPairs
    >>> from reachcost.tasks import ExactTopoNav
    >>> task = make_task("toponav")
    >>> pairs = TemporalPairs(encode_logs(ExactTopoNav(), task.generate_logs(50)), count=1000, validation=100)
    >>> head = fit(pairs, Recipe(hidden=16, epochs=2))
    >>> head.record["best_epoch"] in (1, 2)
    True
    """
    require_type(pairs, Pairs, "pairs", "give labelled pairs, such as rc.labels.TemporalPairs(latents)")
    require_type(recipe, Recipe | None, "recipe", "give a Recipe, such as rc.Recipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe, progress = recipe or pairs.default_recipe, as_progress(progress)

    def build() -> LearnedHead:
        return recipe.build(pairs.latents.shape[1]) if head is None else _trainable_copy(head, recipe, pairs.latents)

    trained, curve = train_seeded("head", seed, device, build, lambda built: _train(built, pairs, recipe, progress))
    trained.record = {
        "recipe": asdict(recipe),
        "seed": seed,
        "pairs": pairs.record,
        **({} if head is None else _record_of_copy(head, recipe, pairs.record)),
        **kept_epoch(curve),
        "references": constant_reference(trained, pairs, recipe),
        "curve": curve,
    }
    return trained


def _train(head: LearnedHead, pairs: Pairs, recipe: Recipe, progress: Progress) -> Curve:
    latents, read, device = pairs.latents, row_reader(pairs.latents), device_of(head)

    def sample(epoch: int) -> tuple[Tensor, Tensor, Tensor]:
        sampled = pairs.epoch(epoch if recipe.fresh else 0)
        return sampled.first, sampled.second, sampled.gap / head.scale

    def losses(first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        scaled = head.scaled(read(first).to(device), read(second).to(device))
        return recipe.losses(scaled, target.to(device))

    def validate() -> dict[str, float]:
        loss, rmse = evaluate(head, latents, pairs.validation, recipe.losses)
        return {"validation_loss": loss, "validation_rmse": rmse}

    return train(head, recipe, sample, losses, validate, progress)


@torch.no_grad()
def evaluate(
    head: LearnedHead,
    latents: Tensor,
    pairs: PairSet,
    losses: Callable[[Tensor, Tensor], Tensor] = functional.smooth_l1_loss,
) -> tuple[float, float]:
    """Return the mean loss on scaled labels (by default Smooth L1) and the RMSE in steps."""
    read, device = row_reader(latents), device_of(head)
    predicted = head.scaled(read(pairs.first).to(device), read(pairs.second).to(device))
    target = (pairs.gap / head.scale).to(device)
    rmse = head.scale * functional.mse_loss(predicted, target).sqrt()
    return losses(predicted, target).mean().item(), rmse.item()


def _trainable_copy(head: LearnedHead, recipe: Recipe, latents: Tensor) -> LearnedHead:
    """A copy of the head to train, after a check that head and recipe fit together.

    Frozen weights stay frozen unless all are frozen, as in a head that was trained or loaded before.
    """
    if not isinstance(head, LearnedHead):
        raise ReachcostError(f"head= takes a LearnedHead, not {type(head).__name__}: make yours a subclass of it")
    defaults = (Recipe(), Recipe.paper())
    changes = [[name for name in BUILD_SETTINGS if getattr(recipe, name) != getattr(one, name)] for one in defaults]
    if all(changes):
        raise ReachcostError(
            f"the recipe sets {', '.join(min(changes, key=len))}, but head= is built already: "
            "give that to the constructor of the head instead"
        )
    trained = copy.deepcopy(head).eval()
    if not any(weight.requires_grad for weight in trained.parameters()):
        trained.requires_grad_(True)
    few = latents[:3]
    found = tuple(trained.scaled(few, few).shape)
    if not list(trained.parameters()) or found != few.shape[:1]:
        raise ReachcostError(
            f"cannot train {type(head).__name__}, which returns {found} for {len(few)} pairs of latents: "
            "give it parameters, and let `compare` map [N, D], [N, D] to [N]"
        )
    return trained


def _record_of_copy(head: LearnedHead, recipe: Recipe, pairs: dict[str, Any]) -> dict[str, Any]:
    """How a copy of the head was trained: a recipe that builds such a head, the pairs, and the record of the head.

    The pairs prove nothing about evaluation sets that earlier training did not exclude.
    """
    options = {name: value for name, value in head.config.items() if name not in ("latent_dim", "scale")}
    kind = head.kind or type(head).__name__
    built = {"head": kind, "scale": head.scale, "hidden": None, "symmetric": None, "options": options}
    if "pairs" in head.record and "exclusion" in pairs:
        earlier = head.record["pairs"].get("exclusion", {}).get("evaluation_sets_sha256", [])
        both = [sha256 for sha256 in pairs["exclusion"]["evaluation_sets_sha256"] if sha256 in earlier]
        proof = {"exclusion": {**pairs["exclusion"], "evaluation_sets_sha256": both}} if both else {}
        pairs = {name: value for name, value in pairs.items() if name != "exclusion"} | proof
    return {"recipe": {**asdict(recipe), **built}, "pairs": pairs, "started_from": head.record}


def shuffled_head(pairs: Pairs, recipe: Recipe, seed: int = 0) -> LearnedHead:
    """A head trained briefly on permuted labels, which cannot have learned anything."""
    control, few = pairs.shuffled(), slice(0, SHUFFLED_PAIRS)
    control.train = PairSet(control.train.first[few], control.train.second[few], control.train.gap[few])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachcostWarning)  # this head should be constant
        return fit(control, replace(recipe, epochs=SHUFFLED_EPOCHS, fresh=False), seed=seed)


def shuffled_error(pairs: Pairs, recipe: Recipe, seed: int = 0) -> dict[str, float]:
    """Loss and RMSE of a shuffled head on the true validation labels."""
    loss, rmse = evaluate(shuffled_head(pairs, recipe, seed), pairs.latents, pairs.validation, recipe.losses)
    return {"loss": loss, "rmse": rmse}


@torch.no_grad()
def constant_reference(head: LearnedHead, pairs: Pairs, recipe: Recipe) -> dict[str, Any]:
    """The best constant for the validation pairs, compared with a head, as JSON values; warns of a constant head.

    `remaining` is the loss of the head divided by that of the constant, with its interval over `episodes`.
    """
    held_out, read = pairs.validation, row_reader(pairs.latents)
    target = held_out.gap / head.scale
    predicted = head.scaled(read(held_out.first), read(held_out.second))
    if len(predicted) > 1 and predicted.std() < 1e-3 * target.std():  # as a softplus far below zero has no gradient
        warnings.warn(
            f"the head predicts about {head.scale * predicted.mean():.2g} for every pair, so it ranks nothing: train "
            "it with another seed, a smaller scale (Recipe.scale) or a lower learning rate",
            ReachcostWarning,
            stacklevel=4,
        )
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


def _share(sums: np.ndarray) -> np.ndarray:
    """Sums of both losses [N, 2] to the first divided by the second [N]; 1 where the second is 0."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.ones(len(sums)), where=sums[:, 1] > 0)


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
    """Why a head's record does not show that it learned anything; empty if it does, or for a shuffled control."""
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
