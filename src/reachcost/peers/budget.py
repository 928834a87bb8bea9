"""Training a head on reachability within budgets of steps, with pairs of other episodes as never reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, require_type
from reachcost.fitting.loop import train_on_pairs
from reachcost.fitting.repair import HOLDOUT
from reachcost.heads.recipe import require_positive
from reachcost.heads.regression import BudgetHead
from reachcost.labels.pairs import Pairs, PairSet
from reachcost.labels.temporal import TemporalPairs, directed
from reachcost.protocols import WorldModel


@dataclass(frozen=True)
class BudgetRecipe:
    """How a head of reachability within budgets is built and trained.

    Attributes:
        budgets: Number of budgets, evenly spaced up to the longest.
        longest: Steps of the largest budget; None for those of the longest episode.
        unrelated: Share of pairs of different episodes, which count as never reached.
        directed: Learn the logged direction only; otherwise the return path counts as equally long.
        hidden: Width of the two hidden layers.
        epochs, batch_size, learning_rate, weight_decay, schedule: As for `Recipe`.
    """

    budgets: int = 20
    longest: int | None = None
    unrelated: float = 0.05
    directed: bool = True
    hidden: int = 256
    epochs: int = 8
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    schedule: Literal["constant", "one-cycle"] = "one-cycle"

    def __post_init__(self) -> None:
        require_positive(self, "budget recipe", "budgets", "hidden", "epochs", "batch_size", "learning_rate")
        if self.longest is not None and self.longest < 1:
            raise ReachcostError(f"budget recipe: longest is {self.longest}: give at least one step, or leave it out")
        if not 0 <= self.unrelated < 1:
            raise ReachcostError(f"budget recipe: unrelated is {self.unrelated}: give a share from 0 to below 1")


class ReachedPairs(Pairs):
    """Temporal pairs, some of them with the second row replaced by a row of another episode.

    The gap of a replaced pair is infinite. All rows are those of the temporal pairs, so held-out and excluded episodes
    stay apart.
    """

    def __init__(self, latents: Latents, temporal: Pairs, share: float) -> None:
        logs, exclusion, seed = latents.logs, temporal._exclusion, temporal.record["seed"]

        def mix(pairs: PairSet, purpose: str, *indices: int) -> PairSet:
            rng = generator(seed, purpose, *indices)
            exchanged = np.flatnonzero(rng.random(len(pairs)) < share)
            first, second, gap = (column.numpy().copy() for column in (pairs.first, pairs.second, pairs.gap))
            other = rng.permutation(second)[exchanged]
            different = logs.episode_of(first[exchanged]) != logs.episode_of(other)
            allowed = different & ~exclusion.bans(first[exchanged], other)
            second[exchanged[allowed]], gap[exchanged[allowed]] = other[allowed], np.inf
            return PairSet(*(torch.from_numpy(column) for column in (first, second, gap)))

        super().__init__(
            latents,
            lambda epoch: mix(temporal.epoch(epoch), "unrelated-train-pairs", epoch),
            mix(temporal.validation, "unrelated-validation-pairs"),
            exclusion,
            {**temporal.record, "unrelated": share},
        )


def fit_budget(
    model: WorldModel,
    logs: Logs,
    *,
    exclude: EvaluationSets = None,
    pairs: int = 100_000,
    recipe: BudgetRecipe | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> BudgetHead:
    """Train a head on the probability of reaching a latent within budgets; `HeadCost(head)` is the terminal cost.

    A budget reaches the second row of a pair if the logged time is at most the budget. Held-out episodes select the
    epoch. Deterministic given the seed. Arguments not listed are as for `TemporalPairs` and `fit`.

    Args:
        model: The world model.
        logs: Logs that the model can encode.
        pairs: Number of training pairs per epoch.
    """
    require_type(recipe, BudgetRecipe | None, "recipe", "give a BudgetRecipe, say rc.peers.BudgetRecipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe, progress = recipe or BudgetRecipe(), as_progress(progress)
    latents = encode_logs(model, logs, progress=progress)
    temporal = TemporalPairs(latents, pairs, exclude=exclude, holdout=HOLDOUT, seed=seed)
    reached = ReachedPairs(latents, directed(temporal) if recipe.directed else temporal, recipe.unrelated)
    longest = recipe.longest or int(latents.logs.lengths.max()) - 1
    size, scale = latents.values.shape[1], longest / recipe.budgets
    progress.step("head")
    return train_on_pairs(
        "budget-head",
        lambda: BudgetHead(size, recipe.budgets, recipe.hidden, scale),
        recipe,
        reached,
        lambda sampled: sampled.gap,
        seed=seed,
        device=device,
        progress=progress,
    )
