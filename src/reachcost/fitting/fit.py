"""Training a head on labelled pairs; the epoch with the lowest validation loss is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.core.arrays import row_reader
from reachcost.core.devices import choose_device, device_of
from reachcost.core.parallel import one_thread
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import torch_seed
from reachcost.errors import ReachcostWarning, require_type
from reachcost.fitting.loop import chosen, train
from reachcost.fitting.prebuilt import record_of_copy, trainable_copy
from reachcost.fitting.references import beside_constant
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import Pairs, PairSet


def fit(
    pairs: Pairs,
    recipe: Recipe | None = None,
    *,
    head: LearnedHead | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Train a head on the pairs; deterministic from its seed. Its record has the error of a constant beside its own.

    Args:
        pairs: What it learns from.
        recipe: How it is built and trained; by default ours, for shortest ways without its leaning to short times.
        head: Train a copy of this one, from its weights, instead of building one. The recipe then only trains.
        seed: Seed of weights and batches.
        device: Where it is trained; `auto` is a GPU if there is one. The head that is returned is on the processor.
        progress: True shows how far it is.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.labels import TemporalPairs
    >>> from reachcost.tasks import ExactTopoNav
    >>> task = make_task("toponav")
    >>> pairs = TemporalPairs(encode_logs(ExactTopoNav(), task.generate_logs(50)), count=1000, validation=100)
    >>> head = fit(pairs, Recipe(hidden=16, epochs=2))
    >>> head.record["best_epoch"] in (1, 2)
    True
    """
    require_type(pairs, Pairs, "pairs", "give labelled pairs, say rc.labels.TemporalPairs(latents)")
    require_type(recipe, Recipe | None, "recipe", "give a Recipe, say rc.Recipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe = recipe or pairs.usual_recipe
    progress = as_progress(progress)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "head"))
        trained = recipe.build(pairs.latents.shape[1]) if head is None else trainable_copy(head, recipe, pairs.latents)
        curve = _train(trained.to(choose_device(device)), pairs, recipe, progress)
        trained.cpu()
    _warn_if_constant(trained, pairs)
    trained.record = {
        "recipe": asdict(recipe),
        "seed": seed,
        "pairs": pairs.record,
        **({} if head is None else record_of_copy(head, recipe, pairs.record)),
        **chosen(curve),
        "references": beside_constant(trained.eval(), pairs, recipe),
        "curve": curve,
    }
    return trained.eval().requires_grad_(False)


def _train(head: LearnedHead, pairs: Pairs, recipe: Recipe, progress: Progress) -> list[dict[str, float]]:
    latents, read, device = pairs.latents, row_reader(pairs.latents), device_of(head)

    def draw(epoch: int) -> tuple[Tensor, Tensor, Tensor]:
        drawn = pairs.epoch(epoch) if recipe.fresh and epoch else pairs.train
        return drawn.first, drawn.second, drawn.gap / head.scale

    def losses(first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        scaled = head.scaled(read(first).to(device), read(second).to(device))
        return recipe.losses(scaled, target.to(device))

    def judge() -> dict[str, float]:
        loss, rmse = evaluate(head, latents, pairs.validation, recipe.losses)
        return {"validation_loss": loss, "validation_rmse": rmse}

    return train(head, recipe, draw, losses, judge, progress)


@torch.no_grad()
def _warn_if_constant(head: LearnedHead, pairs: Pairs) -> None:
    """A softplus pushed far below zero learns no more; a planner must not rank by such a head."""
    few = slice(0, 1000)
    read = row_reader(pairs.latents)
    predicted = head(read(pairs.validation.first[few]), read(pairs.validation.second[few]))
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
    read, device = row_reader(latents), device_of(head)
    predicted = head.scaled(read(pairs.first).to(device), read(pairs.second).to(device))
    target = (pairs.gap / head.scale).to(device)
    rmse = head.scale * functional.mse_loss(predicted, target).sqrt()
    return losses(predicted, target).mean().item(), rmse.item()
