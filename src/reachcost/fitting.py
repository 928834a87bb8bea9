"""One training loop for every head; the epoch with the lowest validation loss is kept."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from reachcost.errors import ReachcostError
from reachcost.heads.pair import PairHead
from reachcost.pairs import PairSet, TemporalPairs
from reachcost.parallel import one_thread
from reachcost.progress import Progress
from reachcost.seeding import torch_seed


@dataclass(frozen=True)
class Recipe:
    """How a head is trained. The defaults are the paper's for TwoRoom."""

    hidden: int = 256
    """Width of the two hidden layers."""
    scale: float = 224.0
    """Steps per unit of the network's output."""
    symmetric: bool = False
    """Average both input orders while training and afterwards."""
    epochs: int = 20
    """Passes over the training pairs."""
    batch_size: int = 1024
    """Pairs per update."""
    learning_rate: float = 1e-3
    """AdamW learning rate; the peak, with the one-cycle schedule."""
    weight_decay: float = 1e-4
    """AdamW weight decay."""
    schedule: Literal["constant", "one-cycle"] = "constant"
    """Learning rate over the updates."""

    def __post_init__(self) -> None:
        for name in ("hidden", "scale", "epochs", "batch_size", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ReachcostError(f"recipe: {name} is {getattr(self, name)}: make it positive")
        if self.schedule not in ("constant", "one-cycle"):
            raise ReachcostError(f"recipe: unknown schedule {self.schedule!r}: choose constant or one-cycle")


def fit(
    pairs: TemporalPairs, recipe: Recipe | None = None, *, seed: int = 0, progress: Progress | None = None
) -> PairHead:
    """Train a head on the pairs; deterministic from its seed.

    >>> from reachcost import ExactTopoNav, encode_logs, make_task
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
        head = PairHead(pairs.latents.shape[1], recipe.hidden, recipe.scale, recipe.symmetric)
        curve, best = _train(head, pairs, recipe, progress)
    head.load_state_dict(best)
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
    head: PairHead, pairs: TemporalPairs, recipe: Recipe, progress: Progress
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
        order = torch.randperm(len(train))
        columns = latents[train.first[order]], latents[train.second[order]], train.gap[order] / recipe.scale
        total = 0.0
        for z, goal, target in zip(*(column.split(recipe.batch_size) for column in columns), strict=True):
            loss = functional.smooth_l1_loss(head.scaled(z, goal), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
            total += loss.item() * len(target)
        validation_loss, validation_rmse = evaluate(head, latents, pairs.validation)
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
def evaluate(head: PairHead, latents: Tensor, pairs: PairSet) -> tuple[float, float]:
    """Return the Smooth-L1 loss on scaled labels and the RMSE in steps."""
    predicted = head.scaled(latents[pairs.first], latents[pairs.second])
    target = pairs.gap / head.scale
    loss = functional.smooth_l1_loss(predicted, target)
    rmse = head.scale * functional.mse_loss(predicted, target).sqrt()
    return loss.item(), rmse.item()
