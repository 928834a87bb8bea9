"""Training a goal-conditioned inverse dynamics model on logged actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from reachcost.core.progress import Progress, as_progress
from reachcost.data.actions import ActionBlocks, blocks_of, discrete_actions
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs, require_logs
from reachcost.data.models import name_of, require_model
from reachcost.errors import ReachcostError, require_type
from reachcost.fitting.loop import train_on_pairs
from reachcost.fitting.repair import HOLDOUT
from reachcost.heads.inverse import InverseDynamics
from reachcost.heads.recipe import require_positive
from reachcost.labels.pairs import PairSet
from reachcost.labels.temporal import TemporalPairs, directed
from reachcost.protocols import WorldModel


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

    All later rows of an episode are goals of a row. Actions of a block after the goal do not count. Held-out episodes
    select the epoch. Deterministic given the seed. Arguments not listed are as for `TemporalPairs` and `fit`.

    Args:
        model: The world model; its `actions` define the blocks, and without them actions are discrete.
        logs: Logs that the model can encode, with the column `action`.
        pairs: Number of training pairs per epoch.
    """
    require_type(recipe, InverseRecipe | None, "recipe", "give an InverseRecipe, say rc.peers.InverseRecipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe, progress = recipe or InverseRecipe(), as_progress(progress)
    logged = TakenActions.of(model, logs)
    latents = encode_logs(model, logs, progress=progress)
    forward = directed(TemporalPairs(latents, pairs, exclude=exclude, holdout=HOLDOUT, seed=seed))
    size, discrete = latents.values.shape[1], logged.blocks is None
    progress.step("inverse dynamics")
    return train_on_pairs(
        "inverse-dynamics",
        lambda: InverseDynamics(size, logged.outputs, discrete, recipe.hidden, recipe.layers),
        recipe,
        forward,
        logged.between,
        seed=seed,
        device=device,
        progress=progress,
    )


@dataclass(frozen=True)
class TakenActions:
    """The logged actions in the form that a world model takes.

    Attributes:
        actions: The action of each row [R, a].
        blocks: Action blocks of the model; None for discrete actions.
        outputs: Number of values of a block, or of discrete actions.
    """

    actions: np.ndarray
    blocks: ActionBlocks | None
    outputs: int

    @classmethod
    def of(cls, model: WorldModel, logs: Logs) -> TakenActions:
        """The actions of logs, after a check that they are actions of the model."""
        require_model(model)
        require_logs(logs)
        if "action" not in logs.columns:
            raise ReachcostError("these logs have no column 'action': log the actions")
        actions, blocks = np.asarray(logs.columns["action"]), blocks_of(model)
        if blocks is not None:
            if actions.shape[1:] != (len(blocks.mean),):
                raise ReachcostError(
                    f"actions are {actions.shape[1:]} in these logs, but the blocks of {name_of(model)} stand for "
                    f"actions of {len(blocks.mean)} numbers: give logs of its world"
                )
            return cls(actions, blocks, blocks.size)
        if model.action_dim != 1 or actions.shape[1:] != (1,):
            raise ReachcostError(
                f"{name_of(model)} does not define how its blocks of {model.action_dim} numbers stand for logged "
                f"actions of {actions.shape[1:]}: add model = rc.with_actions(model, logs, length=...)"
            )
        return cls(actions, None, discrete_actions(model, logs) or 0)

    def between(self, pairs: PairSet) -> Tensor:
        """The actions from the first to the second rows of pairs, with the earlier row first.

        Blocks [P, A] with NaN from the second row on, or discrete actions int64 [P].
        """
        first = pairs.first.numpy()
        if self.blocks is None:
            return torch.from_numpy(self.actions[first, 0].astype(np.int64))
        steps = np.arange(self.blocks.length)
        taken = self.actions[np.minimum(first[:, None] + steps, len(self.actions) - 1)].astype(np.float64)
        taken[steps >= pairs.gap.numpy()[:, None]] = np.nan
        return torch.from_numpy(self.blocks.standardise(taken))
