"""The training loop of everything that is learned on latents: shuffled batches, and the epoch that held-out pairs like.

What is learned, from what and by which loss is the business of the caller; randomness is torch's, seeded by the caller.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from reachcost.core.devices import device_of
from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError


class Updates(Protocol):
    """What of a recipe says how weights are updated."""

    @property
    def epochs(self) -> int:
        """Passes over the training pairs."""
        ...

    @property
    def batch_size(self) -> int:
        """Pairs per update."""
        ...

    @property
    def learning_rate(self) -> float:
        """AdamW learning rate; the peak, with the one-cycle schedule."""
        ...

    @property
    def weight_decay(self) -> float:
        """AdamW weight decay."""
        ...

    @property
    def schedule(self) -> Literal["constant", "one-cycle"]:
        """Learning rate over the updates."""
        ...


class Optimiser:
    """AdamW with the schedule of a recipe, over epochs of so many pairs."""

    def __init__(self, module: nn.Module, updates: Updates, pairs: int) -> None:
        rate, decay = updates.learning_rate, updates.weight_decay
        fused = device_of(module).type in ("cpu", "cuda")
        self._adam = AdamW(module.parameters(), lr=rate, weight_decay=decay, fused=fused)
        batches = -(-pairs // updates.batch_size)
        one_cycle = updates.schedule == "one-cycle"
        self._schedule = OneCycleLR(self._adam, rate, total_steps=updates.epochs * batches) if one_cycle else None

    def step(self, loss: Tensor) -> None:
        """Lower a loss []."""
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        if self._schedule is not None:
            self._schedule.step()


def passed(optimiser: Optimiser, losses: Callable[..., Tensor], batches: Iterable[Sequence[Tensor]]) -> Tensor:
    """Update weights once with every batch, and return the sum of all losses []; nothing is looked at meanwhile."""
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        loss = losses(*batch).mean()
        optimiser.step(loss)
        total = total.to(loss.device) + loss.detach().double() * len(batch[0])
    return total


def train(
    module: nn.Module,
    updates: Updates,
    draw: Callable[[int], Sequence[Tensor]],
    losses: Callable[..., Tensor],
    judge: Callable[[], dict[str, float]],
    progress: Progress,
) -> list[dict[str, float]]:
    """Train a module in place; it ends with the weights of the epoch of lowest validation loss.

    Args:
        module: What is trained.
        updates: How often, how fast.
        draw: The training pairs of an epoch, 0 for the first, as columns [P, ...]; always equally many.
        losses: Loss of each pair of a batch [B], from its part of the columns.
        judge: `validation_loss` and what else the curve should tell, of the module as it is.
        progress: Told of each epoch.

    Returns:
        One point per epoch: its number from 1, `train_loss` and what `judge` says.

    >>> from reachcost.heads.recipe import Recipe
    >>> line, x = nn.Linear(1, 1), torch.linspace(-1, 1, 64)[:, None]
    >>> error = lambda x, y: (line(x) - y).square().mean(1)
    >>> judge = lambda: {"validation_loss": error(x, 3 * x).mean().item()}
    >>> curve = train(line, Recipe(epochs=30, learning_rate=0.3), lambda epoch: (x, 3 * x), error, judge, Progress())
    >>> curve[-1]["validation_loss"] < curve[0]["validation_loss"]
    True
    """
    columns = draw(0)
    optimiser = Optimiser(module, updates, len(columns[0]))
    curve: list[dict[str, float]] = []
    best: dict[str, Any] = {}
    for epoch in progress.track(range(1, updates.epochs + 1), "epoch"):
        if epoch > 1:
            columns = draw(epoch - 1)
        module.train()
        order = torch.randperm(len(columns[0]))
        batches = zip(*(column[order].split(updates.batch_size) for column in columns), strict=True)
        total = passed(optimiser, losses, batches).item()
        module.eval()
        with torch.no_grad():
            judged = judge()
        if not judged["validation_loss"] < float("inf"):
            raise ReachcostError(
                f"the validation loss became {judged['validation_loss']} in epoch {epoch}: lower the learning rate"
            )
        if not curve or judged["validation_loss"] < min(point["validation_loss"] for point in curve):
            best = copy.deepcopy(module.state_dict())
        curve.append({"epoch": epoch, "train_loss": total / len(columns[0]), **judged})
    module.load_state_dict(best)
    return curve


def chosen(curve: Sequence[dict[str, float]]) -> dict[str, float]:
    """The epoch whose weights were kept, as records tell it.

    >>> chosen([{"epoch": 1, "train_loss": 2.0, "validation_loss": 3.0}])
    {'best_epoch': 1, 'validation_loss': 3.0}
    """
    point = min(curve, key=lambda epoch: epoch["validation_loss"])
    return {"best_epoch": point["epoch"], **{name: point[name] for name in point if name.startswith("validation")}}
