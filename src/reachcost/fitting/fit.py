"""One training loop for every head; the epoch with the lowest validation loss is kept."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import asdict

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from reachcost.base.parallel import one_thread
from reachcost.base.progress import Progress, as_progress
from reachcost.base.seeding import torch_seed
from reachcost.base.types import require_type
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.given import record_of_copy, trainable_copy
from reachcost.fitting.pairs import Pairs, PairSet
from reachcost.fitting.recipe import Recipe
from reachcost.fitting.references import beside_constant
from reachcost.heads.base import LearnedHead


def fit(
    pairs: Pairs,
    recipe: Recipe | None = None,
    *,
    head: LearnedHead | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Train a head on the pairs; deterministic from its seed. Its record has the error of a constant beside its own.

    Args:
        pairs: What it learns from.
        recipe: How it is built and trained; by default ours, for shortest ways without its leaning to short times.
        head: Train a copy of this one, from its weights, instead of building one. The recipe then only trains.
        seed: Seed of weights and batches.
        progress: True shows how far it is.

    >>> from reachcost import ExactTopoNav, TemporalPairs, encode_logs, make_task
    >>> task = make_task("toponav")
    >>> pairs = TemporalPairs(encode_logs(ExactTopoNav(), task.generate_logs(50)), count=1000, validation=100)
    >>> head = fit(pairs, Recipe(hidden=16, epochs=2))
    >>> head.record["best_epoch"] in (1, 2)
    True
    """
    require_type(pairs, Pairs, "pairs", "give labelled pairs, say rc.TemporalPairs(latents)")
    require_type(recipe, Recipe | None, "recipe", "give a Recipe, say rc.Recipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe = recipe or pairs.usual_recipe
    progress = as_progress(progress)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "head"))
        trained = recipe.build(pairs.latents.shape[1]) if head is None else trainable_copy(head, recipe, pairs.latents)
        curve, best = _train(trained, pairs, recipe, progress)
    trained.load_state_dict(best)
    _warn_if_constant(trained, pairs)
    chosen = min(curve, key=lambda epoch: epoch["validation_loss"])
    trained.record = {
        "recipe": asdict(recipe),
        "seed": seed,
        "pairs": pairs.record,
        **({} if head is None else record_of_copy(head, recipe, pairs.record)),
        "best_epoch": chosen["epoch"],
        "validation_loss": chosen["validation_loss"],
        "validation_rmse": chosen["validation_rmse"],
        "references": beside_constant(trained.eval(), pairs, recipe),
        "curve": curve,
    }
    return trained.eval().requires_grad_(False)


def _train(
    head: LearnedHead, pairs: Pairs, recipe: Recipe, progress: Progress
) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    latents, train = pairs.latents, pairs.train
    optimizer = AdamW(head.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True)
    updates = -(-len(train) // recipe.batch_size)
    schedule = (
        OneCycleLR(optimizer, max_lr=recipe.learning_rate, epochs=recipe.epochs, steps_per_epoch=updates)
        if recipe.schedule == "one-cycle"
        else None
    )
    curve: list[dict[str, float]] = []
    best: dict[str, Tensor] = {}
    for epoch in progress.track(range(1, recipe.epochs + 1), "epoch"):
        if recipe.fresh and epoch > 1:
            train = pairs.epoch(epoch - 1)
        head.train()
        order = torch.randperm(len(train))
        columns = latents[train.first[order]], latents[train.second[order]], train.gap[order] / head.scale
        total = 0.0
        for z, goal, target in zip(*(column.split(recipe.batch_size) for column in columns), strict=True):
            loss = recipe.losses(head.scaled(z, goal), target).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
            total += loss.item() * len(target)
        validation_loss, validation_rmse = evaluate(head.eval(), latents, pairs.validation, recipe.losses)
        if not validation_loss < float("inf"):
            raise ReachcostError(
                f"the validation loss became {validation_loss} in epoch {epoch}: lower the learning rate"
            )
        if not curve or validation_loss < min(point["validation_loss"] for point in curve):
            best = copy.deepcopy(head.state_dict())
        curve.append(
            {
                "epoch": epoch,
                "train_loss": total / len(train),
                "validation_loss": validation_loss,
                "validation_rmse": validation_rmse,
            }
        )
    return curve, best


@torch.no_grad()
def _warn_if_constant(head: LearnedHead, pairs: Pairs) -> None:
    """A softplus pushed far below zero learns no more; a planner must not rank by such a head."""
    few = slice(0, 1000)
    predicted = head(pairs.latents[pairs.validation.first[few]], pairs.latents[pairs.validation.second[few]])
    if len(predicted) > 1 and predicted.std() < 1e-3 * pairs.validation.gap[few].std():
        warnings.warn(
            f"the head predicts about {predicted.mean():.2g} for every pair, so it ranks nothing: train it with "
            "another seed, a smaller scale (Recipe.scale) or a lower learning rate",
            ReachcostWarning,
            stacklevel=3,
        )


@torch.no_grad()
def evaluate(
    head: LearnedHead,
    latents: Tensor,
    pairs: PairSet,
    losses: Callable[[Tensor, Tensor], Tensor] = functional.smooth_l1_loss,
) -> tuple[float, float]:
    """Return the mean loss on scaled labels (by default Smooth L1) and the RMSE in steps."""
    predicted = head.scaled(latents[pairs.first], latents[pairs.second])
    target = pairs.gap / head.scale
    rmse = head.scale * functional.mse_loss(predicted, target).sqrt()
    return losses(predicted, target).mean().item(), rmse.item()
