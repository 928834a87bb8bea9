"""The training loop of everything that is learned on latents: shuffled batches, and the best validation epoch.

A recipe here is any dataclass with `epochs`, `batch_size`, `learning_rate`, `weight_decay` and `schedule`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from reachcost.core.arrays import row_reader
from reachcost.core.devices import choose_device, device_of
from reachcost.core.parallel import one_thread
from reachcost.core.progress import Progress
from reachcost.core.seeding import torch_seed
from reachcost.errors import ReachcostError
from reachcost.labels.pairs import Pairs, PairSet

Network = TypeVar("Network", bound=nn.Module)
Curve = list[dict[str, float]]
"""Values of each epoch by name."""


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
        module: The module to train.
        recipe: Controls the updates.
        sample: Returns the training pairs of an epoch, 0 for the first, as columns [P, ...]; P is always the same.
        losses: Loss of each pair of a batch [B], from its part of the columns.
        validate: Returns `validation_loss`, and further values for the curve.
        progress: Reports the epochs.

    Returns:
        One point per epoch: its number from 1, `train_loss` and the values of `validate`.
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


def train_on_pairs(
    name: str,
    build: Callable[[], Network],
    recipe: Any,
    pairs: Pairs,
    target: Callable[[PairSet], Tensor],
    *,
    seed: int,
    device: str,
    progress: Progress,
) -> Network:
    """Train a network on fresh pairs every epoch, keep the best validation epoch, and fill in its `record`.

    Args:
        name: Name of the random stream for weights and batches.
        build: Returns a new network with a method `losses(z, goal, target) -> [P]`.
        recipe: A dataclass that controls the updates.
        pairs: The pairs.
        target: Returns the target of each pair [P, ...].
        seed: Seed of weights and batches.
        device: Device for training.
        progress: Reports the epochs.
    """
    read = row_reader(pairs.latents)

    def columns(sampled: PairSet) -> tuple[Tensor, Tensor, Tensor]:
        return sampled.first, sampled.second, target(sampled)

    def run(network: Any) -> Curve:
        def losses(first: Tensor, second: Tensor, wanted: Tensor) -> Tensor:
            device = device_of(network)
            return network.losses(read(first).to(device), read(second).to(device), wanted.to(device))

        held_out = columns(pairs.validation)
        return train(
            network,
            recipe,
            lambda epoch: columns(pairs.epoch(epoch)),
            losses,
            lambda: {"validation_loss": losses(*held_out).mean().item()},
            progress,
        )

    network, curve = train_seeded(name, seed, device, build, run)
    record: Any = {"recipe": asdict(recipe), "seed": seed, "pairs": pairs.record, **kept_epoch(curve), "curve": curve}
    network.record = record
    return network
