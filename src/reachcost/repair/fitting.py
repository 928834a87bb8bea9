"""One training loop for every head; the epoch with the lowest validation loss is kept."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from inspect import signature
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from reachcost.base.parallel import one_thread
from reachcost.base.progress import Progress
from reachcost.base.seeding import torch_seed
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.heads.base import LearnedHead
from reachcost.heads.kinds import KINDS
from reachcost.repair.pairs import Pairs, PairSet


@dataclass(frozen=True)
class Recipe:
    """How a head is trained. The defaults are ours for TwoRoom; `Recipe.paper()` has the paper's."""

    head: str = "embedding"
    """Kind of the head: embedding, pair, linear or mahalanobis."""
    hidden: int = 256
    """Width of the two hidden layers, if the head has any."""
    scale: float = 10.0
    """Steps (or what the labels count) per unit of the network's output."""
    symmetric: bool = True
    """Average both input orders of a pair head while training and afterwards; the others do not know an order."""
    epochs: int = 8
    """Passes over the training pairs."""
    batch_size: int = 256
    """Pairs per update."""
    learning_rate: float = 3e-3
    """AdamW learning rate; the peak, with the one-cycle schedule."""
    weight_decay: float = 1e-4
    """AdamW weight decay."""
    schedule: Literal["constant", "one-cycle"] = "one-cycle"
    """Learning rate over the updates."""
    fresh: bool = True
    """Draw new training pairs every epoch instead of repeating the first ones."""
    loss: Literal["regression", "ranking"] = "regression"
    """Predict labels, or only which of two pairs has the larger one."""
    expectile: float = 0.05
    """Weight of a prediction below its label; one above it weighs the rest. Below 0.5 the head leans to the short times
    among those that were logged: to an expectile of labels within `scale` of each other, to a quantile beyond."""

    @classmethod
    def paper(cls, **changes: Any) -> Recipe:
        """The paper's recipe, with changes.

        >>> Recipe.paper(epochs=24).batch_size
        1024
        """
        printed: dict[str, Any] = {
            "head": "pair",
            "scale": 224.0,
            "symmetric": False,
            "epochs": 20,
            "batch_size": 1024,
            "learning_rate": 1e-3,
            "schedule": "constant",
            "fresh": False,
            "expectile": 0.5,
        }
        return cls(**{**printed, **changes})

    def __post_init__(self) -> None:
        for name in ("hidden", "scale", "epochs", "batch_size", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ReachcostError(f"recipe: {name} is {getattr(self, name)}: make it positive")
        if not 0 < self.expectile < 1:
            raise ReachcostError(f"recipe: expectile is {self.expectile}: choose one between 0 and 1, 0.5 for the mean")
        for name, choices in (
            ("schedule", ("constant", "one-cycle")),
            ("loss", ("regression", "ranking")),
            ("head", tuple(KINDS)),
        ):
            if getattr(self, name) not in choices:
                raise ReachcostError(
                    f"recipe: unknown {name} {getattr(self, name)!r}: choose one of {', '.join(choices)}"
                )

    def build(self, latent_dim: int) -> LearnedHead:
        """A new head of this kind, with random weights."""
        kind = KINDS[self.head]
        known = {"hidden": self.hidden, "scale": self.scale, "symmetric": self.symmetric}
        wanted = signature(kind).parameters
        return kind(latent_dim, **{name: value for name, value in known.items() if name in wanted})

    def losses(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Loss of each scaled prediction [P] against its scaled label [P]."""
        if self.loss == "ranking":
            # Each pair against its neighbour in the batch: the logistic loss of putting the nearer one first.
            sign = torch.sign(target - target.roll(1))
            return functional.softplus(-sign * (predicted - predicted.roll(1)))
        loss = functional.smooth_l1_loss(predicted, target, reduction="none")
        if self.expectile == 0.5:
            return loss
        return loss * torch.where(predicted < target, 2 * self.expectile, 2 * (1 - self.expectile))


def fit(pairs: Pairs, recipe: Recipe | None = None, *, seed: int = 0, progress: Progress | None = None) -> LearnedHead:
    """Train a head on the pairs; deterministic from its seed.

    >>> from reachcost import ExactTopoNav, TemporalPairs, encode_logs, make_task
    >>> task = make_task("toponav")
    >>> pairs = TemporalPairs(encode_logs(ExactTopoNav(), task.generate_logs(50)), count=1000, validation=100)
    >>> head = fit(pairs, Recipe(hidden=16, epochs=2))
    >>> head.record["best_epoch"] in (1, 2)
    True
    """
    recipe = recipe or Recipe()
    progress = progress or Progress()
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "head"))
        head = recipe.build(pairs.latents.shape[1])
        curve, best = _train(head, pairs, recipe, progress)
    head.load_state_dict(best)
    _warn_if_constant(head, pairs)
    chosen = min(curve, key=lambda epoch: epoch["validation_loss"])
    head.record = {
        "recipe": asdict(recipe),
        "seed": seed,
        "pairs": pairs.record,
        "best_epoch": chosen["epoch"],
        "validation_loss": chosen["validation_loss"],
        "validation_rmse": chosen["validation_rmse"],
        "curve": curve,
    }
    return head.eval().requires_grad_(False)


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
        order = torch.randperm(len(train))
        columns = latents[train.first[order]], latents[train.second[order]], train.gap[order] / recipe.scale
        total = 0.0
        for z, goal, target in zip(*(column.split(recipe.batch_size) for column in columns), strict=True):
            loss = recipe.losses(head.scaled(z, goal), target).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
            total += loss.item() * len(target)
        validation_loss, validation_rmse = evaluate(head, latents, pairs.validation, recipe.losses)
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
