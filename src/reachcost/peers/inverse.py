"""Training a goal-conditioned inverse dynamics model: every logged row was on its way to all later rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from reachcost.core.arrays import row_reader
from reachcost.core.devices import choose_device, device_of
from reachcost.core.parallel import one_thread
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import torch_seed
from reachcost.data.actions import ActionBlocks, blocks_of, discrete_actions
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs, require_logs
from reachcost.data.models import name_of, require_model
from reachcost.errors import ReachcostError, require_numbers, require_type
from reachcost.fitting.loop import chosen, train
from reachcost.fitting.repair import HOLDOUT
from reachcost.heads.inverse import InverseDynamics
from reachcost.labels.directed import directed
from reachcost.labels.pairs import PairSet
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import WorldModel


@dataclass(frozen=True)
class InverseRecipe:
    """How an inverse dynamics model is built and trained."""

    hidden: int = 256
    """Width of the hidden layers."""
    layers: int = 3
    """Hidden layers."""
    epochs: int = 8
    """Passes over the training pairs, fresh ones each."""
    batch_size: int = 256
    """Pairs per update."""
    learning_rate: float = 3e-3
    """Peak of the AdamW learning rate."""
    weight_decay: float = 1e-4
    """AdamW weight decay."""
    schedule: Literal["constant", "one-cycle"] = "one-cycle"
    """Learning rate over the updates."""

    def __post_init__(self) -> None:
        require_numbers(self)
        for name in ("hidden", "layers", "epochs", "batch_size", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ReachcostError(f"inverse recipe: {name} is {getattr(self, name)}: make it positive")


def fit_inverse(
    model: WorldModel,
    logs: Logs,
    *,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    pairs: int = 100_000,
    recipe: InverseRecipe | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> InverseDynamics:
    """Learn from logs which action block leads from one latent to another; `InversePolicy(network)` acts by it.

    It learns from temporal pairs in the order of time; what a block does after arriving does not count. Episodes that
    are held out choose the epoch. Deterministic from its seed.

    Args:
        model: The world model; blocks are those of its `actions`, without which actions are discrete.
        logs: What it encodes, with their column `action`.
        exclude: Evaluation sets to keep out of training, as for `TemporalPairs`; the record proves it.
        pairs: Training pairs of an epoch.
        recipe: How the network is built and trained; by default ours.
        seed: Seed of pairs, weights and batches.
        device: Where it is trained; `auto` is a GPU if there is one. The network that is returned is on the processor.
        progress: True shows how far it is.

    >>> from reachcost import make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> task = make_task("toponav")
    >>> quick = InverseRecipe(hidden=32, epochs=2)
    >>> logs, kept_out = task.generate_logs(100), task.evaluation_set()
    >>> network = fit_inverse(ExactTopoNav(), logs, exclude=kept_out, pairs=2000, recipe=quick)
    >>> network.record["pairs"]["exclusion"]["overlapping_pairs"]
    0
    """
    require_type(recipe, InverseRecipe | None, "recipe", "give an InverseRecipe, say rc.peers.InverseRecipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe, progress = recipe or InverseRecipe(), as_progress(progress)
    logged = TakenActions.of(model, logs)
    latents = encode_logs(model, logs, progress=progress)
    drawn = directed(TemporalPairs(latents, pairs, exclude=exclude, holdout=HOLDOUT, seed=seed))
    read = row_reader(latents.values)

    def losses(first: Tensor, second: Tensor, taken: Tensor) -> Tensor:
        device = device_of(network)
        return network.losses(read(first).to(device), read(second).to(device), taken.to(device))

    def columns(chosen_pairs: PairSet) -> tuple[Tensor, Tensor, Tensor]:
        return chosen_pairs.first, chosen_pairs.second, logged.between(chosen_pairs)

    progress.step("inverse dynamics")
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "inverse-dynamics"))
        network = InverseDynamics(
            latents.values.shape[1], logged.outputs, logged.blocks is None, recipe.hidden, recipe.layers
        ).to(choose_device(device))
        unseen = columns(drawn.validation)
        curve = train(
            network,
            recipe,
            lambda epoch: columns(drawn.epoch(epoch)),
            losses,
            lambda: {"validation_loss": losses(*unseen).mean().item()},
            progress,
        )
        network.cpu()
    network.record = {"recipe": asdict(recipe), "seed": seed, "pairs": drawn.record, **chosen(curve), "curve": curve}
    return network.eval().requires_grad_(False)


@dataclass(frozen=True)
class TakenActions:
    """What was done in logs, as a world model takes it.

    Attributes:
        actions: The action of each row [R, a].
        blocks: How blocks stand for them; None where they are discrete.
        outputs: Numbers of a block, or discrete actions that were taken.
    """

    actions: np.ndarray
    blocks: ActionBlocks | None
    outputs: int

    @classmethod
    def of(cls, model: WorldModel, logs: Logs) -> TakenActions:
        """The actions of logs, once they are found to be those of the model."""
        require_model(model)
        require_logs(logs)
        if "action" not in logs.columns:
            raise ReachcostError("these logs have no column 'action': inverse dynamics learns from actions, log them")
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
                f"{name_of(model)} does not say how its blocks of {model.action_dim} numbers stand for logged actions "
                f"of {actions.shape[1:]}: add model = rc.with_actions(model, logs, length=...)"
            )
        return cls(actions, None, discrete_actions(model, logs) or 0)

    def between(self, pairs: PairSet) -> Tensor:
        """What was done from the first to the second rows of pairs, the earlier ones first.

        Blocks [P, A], with NaN after the second row, as what comes then leads elsewhere; or discrete actions int64 [P].
        """
        first = pairs.first.numpy()
        if self.blocks is None:
            return torch.from_numpy(self.actions[first, 0].astype(np.int64))
        steps = np.arange(self.blocks.length)
        taken = self.actions[np.minimum(first[:, None] + steps, len(self.actions) - 1)].astype(np.float64)
        taken[steps >= pairs.gap.numpy()[:, None]] = np.nan
        return torch.from_numpy(self.blocks.standardise(taken))
