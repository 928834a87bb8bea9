"""Peers that learn from logged times: reachability within budgets of steps, and inverse dynamics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.core.arrays import row_reader
from reachcost.core.devices import device_of
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.data.actions import blocks_of, discrete_actions
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs, require_logs
from reachcost.data.models import name_of, require_model
from reachcost.errors import ReachcostError, require_type
from reachcost.fitting.loop import Curve, kept_epoch, train, train_seeded
from reachcost.fitting.repair import HOLDOUT
from reachcost.heads.inverse import InverseDynamics
from reachcost.heads.kinds import BudgetHead
from reachcost.heads.recipe import require_positive
from reachcost.labels.pairs import Pairs, PairSet
from reachcost.labels.temporal import TemporalPairs, directed
from reachcost.protocols import WorldModel

Network = TypeVar("Network", bound=nn.Module)


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
    epoch. Deterministic given the seed. `pairs` is the number of training pairs per epoch; other arguments are as for
    `repair` and `fit`.
    """
    require_type(recipe, BudgetRecipe | None, "recipe", "give one, such as rc.peers.BudgetRecipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe, progress = recipe or BudgetRecipe(), as_progress(progress)
    latents = encode_logs(model, logs, progress=progress).without(exclude)
    temporal = TemporalPairs(latents, pairs, holdout=HOLDOUT, seed=seed)
    reached = reached_pairs(latents, directed(temporal) if recipe.directed else temporal, recipe.unrelated)
    longest = recipe.longest or int(logs.lengths.max()) - 1
    size, scale = latents.values.shape[1], longest / recipe.budgets
    progress.step("head")
    build = partial(BudgetHead, size, recipe.budgets, recipe.hidden, scale)
    return _train("budget-head", build, recipe, reached, lambda sampled: sampled.gap, seed, device, progress)


def reached_pairs(latents: Latents, temporal: Pairs, share: float) -> Pairs:
    """Temporal pairs. A share of them gets a second row from another episode and an infinite gap.

    All rows are those of the temporal pairs, so held-out and excluded episodes stay apart.
    """
    logs, exclusion, seed = latents.logs, temporal._exclusion, temporal.record["seed"]

    def mix(pairs: PairSet, purpose: str, *indices: int) -> PairSet:
        rng = generator(seed, purpose, *indices)
        exchanged = np.flatnonzero(rng.random(len(pairs)) < share)
        first, second, gap = (column.numpy().copy() for column in (pairs.first, pairs.second, pairs.gap))
        other = rng.permutation(second)[exchanged]
        different = logs.episode_of(first[exchanged]) != logs.episode_of(other)
        allowed = different & ~exclusion.bans(first[exchanged], other)
        second[exchanged[allowed]], gap[exchanged[allowed]] = other[allowed], np.inf
        return PairSet(*map(torch.from_numpy, (first, second, gap)))

    def sample(epoch: int) -> PairSet:
        return mix(temporal.epoch(epoch), "unrelated-train-pairs", epoch)

    validation = mix(temporal.validation, "unrelated-validation-pairs")
    return Pairs(latents, sample, validation, exclusion, {**temporal.record, "unrelated": share})


@dataclass(frozen=True)
class InverseRecipe:
    """How an inverse dynamics model is built and trained.

    Attributes:
        hidden: Width of the hidden layers.
        layers: Number of hidden layers.
        epochs, batch_size, learning_rate, weight_decay, schedule: As for `Recipe`.
    """

    hidden: int = 256
    layers: int = 3
    epochs: int = 8
    batch_size: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    schedule: Literal["constant", "one-cycle"] = "one-cycle"

    def __post_init__(self) -> None:
        require_positive(self, "inverse recipe", "hidden", "layers", "epochs", "batch_size", "learning_rate")


def fit_inverse(
    model: WorldModel,
    logs: Logs,
    *,
    exclude: EvaluationSets = None,
    pairs: int = 100_000,
    recipe: InverseRecipe | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> InverseDynamics:
    """Train a network on the logged action block between two latents; `InversePolicy(network)` is the policy.

    The `actions` of the model define the blocks; without them actions are discrete. All later rows of an episode are
    goals of a row. Actions of a block after the goal do not count. Held-out episodes select the epoch. Deterministic
    given the seed. Arguments are as for `fit_budget`.
    """
    require_type(recipe, InverseRecipe | None, "recipe", "give one, such as rc.peers.InverseRecipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe, progress = recipe or InverseRecipe(), as_progress(progress)
    taken, outputs, discrete = actions_between(model, logs)
    latents = encode_logs(model, logs, progress=progress).without(exclude)
    forward = directed(TemporalPairs(latents, pairs, holdout=HOLDOUT, seed=seed))
    size = latents.values.shape[1]
    progress.step("inverse dynamics")
    build = partial(InverseDynamics, size, outputs, discrete, recipe.hidden, recipe.layers)
    return _train("inverse-dynamics", build, recipe, forward, taken, seed, device, progress)


def actions_between(model: WorldModel, logs: Logs) -> tuple[Callable[[PairSet], Tensor], int, bool]:
    """A function from pairs, with the earlier row first, to the logged actions between their rows.

    These are blocks [P, A] with NaN from the second row on, or discrete actions int64 [P]. Also returns the size of a
    block, or the number of discrete actions, and whether actions are discrete.
    """
    require_model(model)
    require_logs(logs)
    if "action" not in logs.columns:
        raise ReachcostError("these logs have no column 'action': log the actions")
    actions, blocks = np.asarray(logs.columns["action"]), blocks_of(model)
    if blocks is None:
        if model.action_dim != 1 or actions.shape[1:] != (1,):
            raise ReachcostError(
                f"{name_of(model)} does not define how its blocks of {model.action_dim} numbers stand for logged "
                f"actions of {actions.shape[1:]}: add model = rc.with_actions(model, logs, length=...)"
            )
        numbers = torch.from_numpy(actions[:, 0].astype(np.int64))
        return lambda pairs: numbers[pairs.first], discrete_actions(model, logs) or 0, True
    if actions.shape[1:] != (len(blocks.mean),):
        raise ReachcostError(
            f"actions are {actions.shape[1:]} in these logs, but the blocks of {name_of(model)} stand for "
            f"actions of {len(blocks.mean)} numbers: give logs of its world"
        )

    def between(pairs: PairSet) -> Tensor:
        steps = np.arange(blocks.length)
        taken = actions[np.minimum(pairs.first.numpy()[:, None] + steps, len(actions) - 1)].astype(np.float64)
        taken[steps >= pairs.gap.numpy()[:, None]] = np.nan
        return torch.from_numpy(blocks.standardise(taken))

    return between, blocks.size, False


def _train(
    name: str,
    build: Callable[[], Network],
    recipe: BudgetRecipe | InverseRecipe,
    pairs: Pairs,
    target: Callable[[PairSet], Tensor],
    seed: int,
    device: str,
    progress: Progress,
) -> Network:
    """Train a network with a method `losses(z, goal, target) -> [P]` on fresh pairs, and fill in its `record`."""
    read = row_reader(pairs.latents)

    def columns(sampled: PairSet) -> tuple[Tensor, Tensor, Tensor]:
        return sampled.first, sampled.second, target(sampled)

    def run(network: Any) -> Curve:
        def losses(first: Tensor, second: Tensor, wanted: Tensor) -> Tensor:
            device = device_of(network)
            return network.losses(read(first).to(device), read(second).to(device), wanted.to(device))

        def validate() -> dict[str, float]:
            return {"validation_loss": losses(*held_out).mean().item()}

        held_out = columns(pairs.validation)
        return train(network, recipe, lambda epoch: columns(pairs.epoch(epoch)), losses, validate, progress)

    network, curve = train_seeded(name, seed, device, build, run)
    record: Any = {"recipe": asdict(recipe), "seed": seed, "pairs": pairs.record, **kept_epoch(curve), "curve": curve}
    network.record = record
    return network
