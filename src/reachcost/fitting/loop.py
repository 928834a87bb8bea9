"""The training loop of everything that is learned on latents: shuffled batches, and the best validation epoch.

A recipe here is any dataclass with `epochs`, `batch_size`, `learning_rate`, `weight_decay` and `schedule`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from reachcost.core.devices import choose_device, device_of
from reachcost.core.parallel import one_thread
from reachcost.core.progress import Progress
from reachcost.core.seeding import torch_seed
from reachcost.errors import ReachcostError

Network = TypeVar("Network", bound=nn.Module)
Curve = list[dict[str, float]]
"""Values of each epoch by name: its number from 1, `train_loss` and those of validation."""


class Optimiser:
    """AdamW with the schedule of a recipe, for epochs of `pairs` pairs."""

    def __init__(self, module: nn.Module, recipe: Any, pairs: int) -> None:
        rate, decay = recipe.learning_rate, recipe.weight_decay
        fused = device_of(module).type in ("cpu", "cuda")
        self._adam = AdamW(module.parameters(), lr=rate, weight_decay=decay, fused=fused)
        updates = recipe.epochs * -(-pairs // recipe.batch_size)
        self._schedule = OneCycleLR(self._adam, rate, total_steps=updates) if recipe.schedule == "one-cycle" else None

    def step(self, loss: Tensor) -> None:
        """Update the weights once, by the gradient of a loss []."""
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        if self._schedule is not None:
            self._schedule.step()


def run_epoch(optimiser: Optimiser, losses: Callable[..., Tensor], batches: Iterable[Sequence[Tensor]]) -> Tensor:
    """Update weights once with every batch, and return the sum of all losses [], without waiting for the device."""
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        loss = losses(*batch).mean()
        optimiser.step(loss)
        total = total.to(loss.device) + loss.detach().double() * len(batch[0])
    return total


def train(
    module: nn.Module,
    recipe: Any,
    sample: Callable[[int], Sequence[Tensor]],
    losses: Callable[..., Tensor],
    validate: Callable[[], dict[str, float]],
    progress: Progress,
) -> Curve:
    """Train a module in place; it ends with the weights of the epoch with the lowest validation loss.

    Args:
        sample: Returns the training pairs of an epoch, from 0, as columns [P, ...]; P is always the same.
        losses: Loss of each pair of a batch [B], from its part of the columns.
        validate: Returns `validation_loss`, and further values for the curve.
    """
    columns = sample(0)
    optimiser = Optimiser(module, recipe, len(columns[0]))
    curve: Curve = []
    best: dict[str, Any] = {}
    for epoch in progress.track(range(1, recipe.epochs + 1), "epoch"):
        if epoch > 1:
            columns = sample(epoch - 1)
        module.train()
        order = torch.randperm(len(columns[0]))
        batches = zip(*(column[order].split(recipe.batch_size) for column in columns), strict=True)
        total = run_epoch(optimiser, losses, batches).item()
        module.eval()
        with torch.no_grad():
            validation = validate()
        if not validation["validation_loss"] < float("inf"):
            raise ReachcostError(
                f"the validation loss became {validation['validation_loss']} in epoch {epoch}: lower the learning rate"
            )
        if not curve or validation["validation_loss"] < min(point["validation_loss"] for point in curve):
            best = copy.deepcopy(module.state_dict())
        curve.append({"epoch": epoch, "train_loss": total / len(columns[0]), **validation})
    module.load_state_dict(best)
    return curve


def kept_epoch(curve: Curve) -> dict[str, float]:
    """Number and validation values of the epoch whose weights were kept."""
    point = min(curve, key=lambda epoch: epoch["validation_loss"])
    return {"best_epoch": point["epoch"], **{name: point[name] for name in point if name.startswith("validation")}}


def train_seeded(
    name: str, seed: int, device: str, build: Callable[[], Network], run: Callable[[Network], Curve]
) -> tuple[Network, Curve]:
    """Build a network and train it by `run`; returns it frozen and on the CPU, with its curve.

    Weights and batches depend on `name` and `seed` alone, and the global random numbers of torch stay as they are.
    """
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, name))
        network = build().to(choose_device(device))
        curve = run(network)
    return network.cpu().eval().requires_grad_(False), curve
