"""Training a head on labelled pairs; the epoch with the lowest validation loss is kept."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.core.arrays import row_reader
from reachcost.core.devices import choose_device, device_of
from reachcost.core.parallel import one_thread
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import torch_seed
from reachcost.errors import ReachcostError, ReachcostWarning, require_type
from reachcost.fitting.loop import kept_epoch, train
from reachcost.fitting.references import constant_reference
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import Pairs, PairSet

BUILD_SETTINGS = ("head", "scale", "hidden", "symmetric", "options")  # fields of a recipe that build a head
SHUFFLED_EPOCHS, SHUFFLED_PAIRS = 2, 20_000  # with more, the shuffled head would memorise the permuted labels


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
        pairs: Labelled pairs.
        recipe: How the head is built and trained; by default the recipe for labels of this source.
        head: A head to train a copy of, starting from its weights, instead of a new one.
        seed: Seed of weights and batches.
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
    require_type(pairs, Pairs, "pairs", "give labelled pairs, say rc.labels.TemporalPairs(latents)")
    require_type(recipe, Recipe | None, "recipe", "give a Recipe, say rc.Recipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe = recipe or pairs.default_recipe
    progress = as_progress(progress)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "head"))
        trained = recipe.build(pairs.latents.shape[1]) if head is None else _trainable_copy(head, recipe, pairs.latents)
        curve = _train(trained.to(choose_device(device)), pairs, recipe, progress)
        trained.cpu()
    _warn_if_constant(trained, pairs)
    trained.record = {
        "recipe": asdict(recipe),
        "seed": seed,
        "pairs": pairs.record,
        **({} if head is None else _record_of_copy(head, recipe, pairs.record)),
        **kept_epoch(curve),
        "references": constant_reference(trained.eval(), pairs, recipe),
        "curve": curve,
    }
    return trained.eval().requires_grad_(False)


def _train(head: LearnedHead, pairs: Pairs, recipe: Recipe, progress: Progress) -> list[dict[str, float]]:
    latents, read, device = pairs.latents, row_reader(pairs.latents), device_of(head)

    def sample(epoch: int) -> tuple[Tensor, Tensor, Tensor]:
        sampled = pairs.epoch(epoch) if recipe.fresh and epoch else pairs.train
        return sampled.first, sampled.second, sampled.gap / head.scale

    def losses(first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        scaled = head.scaled(read(first).to(device), read(second).to(device))
        return recipe.losses(scaled, target.to(device))

    def validate() -> dict[str, float]:
        loss, rmse = evaluate(head, latents, pairs.validation, recipe.losses)
        return {"validation_loss": loss, "validation_rmse": rmse}

    return train(head, recipe, sample, losses, validate, progress)


@torch.no_grad()
def _warn_if_constant(head: LearnedHead, pairs: Pairs) -> None:
    """A softplus far below zero has no gradient, so the head stays constant; a planner must not rank by it."""
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


def shuffled_head(pairs: Pairs, recipe: Recipe | None = None, seed: int = 0) -> LearnedHead:
    """A head trained briefly on permuted labels, which cannot have learned anything."""
    control, few = pairs.shuffled(), slice(0, SHUFFLED_PAIRS)
    control.train = PairSet(control.train.first[few], control.train.second[few], control.train.gap[few])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachcostWarning)  # this head should be constant
        return fit(control, replace(recipe or Recipe(), epochs=SHUFFLED_EPOCHS, fresh=False), seed=seed)


def shuffled_error(pairs: Pairs, recipe: Recipe | None = None, seed: int = 0) -> dict[str, float]:
    """Loss and RMSE of a shuffled head on the true validation labels."""
    recipe = recipe or Recipe()
    loss, rmse = evaluate(shuffled_head(pairs, recipe, seed), pairs.latents, pairs.validation, recipe.losses)
    return {"loss": loss, "rmse": rmse}


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

    The pairs prove nothing about evaluation sets that earlier training did not keep out.
    """
    options = {name: value for name, value in head.config.items() if name not in ("latent_dim", "scale")}
    kind = head.kind or type(head).__name__
    built = {"head": kind, "scale": head.scale, "hidden": None, "symmetric": None, "options": options}
    if "pairs" in head.record:
        proofs = [record.get("exclusion", {}) for record in (pairs, head.record["pairs"])]
        now, earlier = (proof.get("evaluation_sets_sha256", []) for proof in proofs)
        both = [sha256 for sha256 in now if sha256 in earlier]
        pairs = {name: value for name, value in pairs.items() if name != "exclusion"}
        pairs |= {"exclusion": {**proofs[0], "evaluation_sets_sha256": both}} if both else {}
    return {"recipe": {**asdict(recipe), **built}, "pairs": pairs, "started_from": head.record}
