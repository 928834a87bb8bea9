"""An epoch of head fitting, of the paper's size, against the loop that people write: a dataset and a `DataLoader`."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset

from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import PairSet
from reachcost.labels.temporal import TemporalPairs
from reachcost_tools.bench.entry import Entry, Side, Sides

PAIRS, LATENT_DIM, STEPS = 100_000, 192, 100
RECIPE = Recipe.paper(epochs=1)


def fitting_entries() -> list[Entry]:
    """One line; `fit` uses one thread."""
    says = f"an epoch of fit, validation included, against a DataLoader loop, {PAIRS:,} pairs, the paper's recipe"
    return [Entry("head fitting, 1 thread", says, against_loader, "epoch", target=5.0)]


def against_loader(count: int = PAIRS, episodes: int = 500) -> Sides:
    """The same pairs of latents that wander, the same head, loss and optimiser."""
    random = torch.Generator().manual_seed(0)
    walks = torch.randn(episodes, STEPS, LATENT_DIM, generator=random).cumsum(1) / STEPS**0.5
    rows = episodes * STEPS
    nothing = np.zeros((rows, 2), np.float32)
    logs = Logs({"state": nothing, "action": nothing}, np.full(episodes, STEPS))
    pairs = TemporalPairs(Latents(walks.flatten(0, 1), logs), count)
    ours = Side(partial(fit, pairs, RECIPE))
    return Sides(ours, Side(partial(plain_epoch, PairDataset(pairs.latents, pairs.train))), counted=True)


class PairDataset(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Two latents [D], [D] and their gap [] at a time."""

    def __init__(self, latents: Tensor, pairs: PairSet) -> None:
        self.latents, self.pairs = latents, pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        first, second = self.pairs.first[number], self.pairs.second[number]
        return self.latents[first], self.latents[second], self.pairs.gap[number]


def plain_epoch(dataset: PairDataset) -> None:
    """An epoch as in any tutorial."""
    head = RECIPE.build(dataset.latents.shape[1])
    optimiser = AdamW(head.parameters(), lr=RECIPE.learning_rate, weight_decay=RECIPE.weight_decay)
    for first, second, gap in DataLoader(dataset, batch_size=RECIPE.batch_size, shuffle=True):
        loss = functional.smooth_l1_loss(head.scaled(first, second), gap / head.scale)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
