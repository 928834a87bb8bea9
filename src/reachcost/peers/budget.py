"""Training a head on reachability within budgets: pairs of one episode arrive when they did, others never did."""

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
from reachcost.core.seeding import generator, torch_seed
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, require_numbers, require_type
from reachcost.fitting.loop import chosen, train
from reachcost.fitting.repair import HOLDOUT
from reachcost.heads.budget import BudgetHead
from reachcost.labels.directed import directed
from reachcost.labels.pairs import Pairs, PairSet
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import WorldModel


@dataclass(frozen=True)
class BudgetRecipe:
    """How a head of reachability within budgets is built and trained."""

    budgets: int = 20
    """Number of budgets, evenly up to the longest."""
    longest: int | None = None
    """Steps of the largest budget; by default those of the longest episode."""
    unrelated: float = 0.05
    """Share of pairs of different episodes, which are taken never to arrive."""
    directed: bool = True
    """Learn the way there alone; else what was reached is taken to lead back in as many steps."""
    hidden: int = 256
    """Width of the two hidden layers."""
    epochs: int = 8
    """Passes over the training pairs, fresh ones each."""
    batch_size: int = 256
    """Pairs per update."""
    learning_rate: float = 1e-3
    """Peak of the AdamW learning rate."""
    weight_decay: float = 1e-4
    """AdamW weight decay."""
    schedule: Literal["constant", "one-cycle"] = "one-cycle"
    """Learning rate over the updates."""

    def __post_init__(self) -> None:
        require_numbers(self)
        for name in ("budgets", "hidden", "epochs", "batch_size", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ReachcostError(f"budget recipe: {name} is {getattr(self, name)}: make it positive")
        if self.longest is not None and self.longest < 1:
            raise ReachcostError(f"budget recipe: longest is {self.longest}: give at least one step, or leave it out")
        if not 0 <= self.unrelated < 1:
            raise ReachcostError(f"budget recipe: unrelated is {self.unrelated}: give a share from 0 to below 1")

    def build(self, latents: Latents) -> BudgetHead:
        """A new head for these latents, with random weights."""
        longest = self.longest or int(latents.logs.lengths.max()) - 1
        return BudgetHead(latents.values.shape[1], self.budgets, self.hidden, longest / self.budgets)


class ReachedPairs(Pairs):
    """Temporal pairs, some of them with the second row of another pair instead, of another episode.

    The gap of those is infinite: nobody is known to have arrived there. Rows are those of the temporal pairs, so what
    these keep apart, episodes that are held out or excluded, stays apart.

    Args:
        latents: Encoded logs.
        temporal: Pairs of single episodes.
        share: Share of pairs of different episodes.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(50))
    >>> pairs = ReachedPairs(latents, TemporalPairs(latents, count=1000, validation=100), share=0.2)
    >>> bool(pairs.train.gap.isinf().float().mean() > 0.15)
    True
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
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    pairs: int = 100_000,
    recipe: BudgetRecipe | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> BudgetHead:
    """Learn from logs how probably a latent is reached from another within budgets; `HeadCost(head)` is the cost.

    A time that was logged arrives within every larger budget, and is taken not to within smaller ones. Episodes that
    are held out choose the epoch. Deterministic from its seed.

    Args:
        model: The world model.
        logs: What it encodes.
        exclude: Evaluation sets to keep out of training, as for `TemporalPairs`; the record proves it.
        pairs: Training pairs of an epoch.
        recipe: How the head is built and trained; by default ours.
        seed: Seed of pairs, weights and batches.
        device: Where it is trained; `auto` is a GPU if there is one. The head that is returned is on the processor.
        progress: True shows how far it is.

    >>> from reachcost import make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> task = make_task("toponav")
    >>> quick = BudgetRecipe(budgets=5, hidden=32, epochs=2)
    >>> logs, kept_out = task.generate_logs(100), task.evaluation_set()
    >>> head = fit_budget(ExactTopoNav(), logs, exclude=kept_out, pairs=2000, recipe=quick)
    >>> head.record["pairs"]["exclusion"]["overlapping_pairs"]
    0
    """
    require_type(recipe, BudgetRecipe | None, "recipe", "give a BudgetRecipe, say rc.peers.BudgetRecipe(epochs=4)")
    require_type(seed, int, "seed", "give a whole number")
    recipe, progress = recipe or BudgetRecipe(), as_progress(progress)
    latents = encode_logs(model, logs, progress=progress)
    temporal = TemporalPairs(latents, pairs, exclude=exclude, holdout=HOLDOUT, seed=seed)
    drawn = ReachedPairs(latents, directed(temporal) if recipe.directed else temporal, recipe.unrelated)
    read = row_reader(latents.values)

    def losses(first: Tensor, second: Tensor, gap: Tensor) -> Tensor:
        device = device_of(head)
        return head.losses(read(first).to(device), read(second).to(device), gap.to(device))

    def columns(reached: PairSet) -> tuple[Tensor, Tensor, Tensor]:
        return reached.first, reached.second, reached.gap

    progress.step("head")
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "budget-head"))
        head = recipe.build(latents).to(choose_device(device))
        curve = train(
            head,
            recipe,
            lambda epoch: columns(drawn.epoch(epoch)),
            losses,
            lambda: {"validation_loss": losses(*columns(drawn.validation)).mean().item()},
            progress,
        )
        head.cpu()
    head.record = {"recipe": asdict(recipe), "seed": seed, "pairs": drawn.record, **chosen(curve), "curve": curve}
    return head.eval().requires_grad_(False)
