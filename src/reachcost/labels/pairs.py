"""Training pairs: two log rows with a label, whatever the label is; what `fit` learns from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion


@dataclass(frozen=True)
class PairSet:
    """P pairs of log rows in random order.

    Attributes:
        first: Row of the first latent [P].
        second: Row of the second latent [P].
        gap: Label: steps between them, float32 [P].
    """

    first: Tensor
    second: Tensor
    gap: Tensor

    def __len__(self) -> int:
        return len(self.gap)

    def permuted(self, rng: Generator) -> PairSet:
        """Keep the pairs and permute their labels."""
        return PairSet(self.first, self.second, self.gap[torch.from_numpy(rng.permutation(len(self)))])


class Pairs:
    """Training and validation pairs with their labels; what `fit` learns from.

    Args:
        latents: Encoded logs.
        draw: Draws the training pairs of an epoch, 0 for the first.
        validation: Validation pairs.
        exclusion: What the evaluation sets forbid; every draw is proved to respect it.
        record: What tells these pairs from others, as JSON values, `seed` among them.

    Attributes:
        train: Training pairs of the first epoch, and of all of them unless a recipe asks for fresh ones.
        validation: Validation pairs.
        record: How the pairs came about, with the measured overlap with evaluation sets.
        usual_recipe: What a head learns from them by, unless told otherwise.
    """

    usual_recipe: Recipe = Recipe()

    def __init__(
        self,
        latents: Latents,
        draw: Callable[[int], PairSet],
        validation: PairSet,
        exclusion: Exclusion,
        record: dict[str, Any],
    ) -> None:
        self.latents, self.logs, self.train, self.validation = latents.values, latents.logs, draw(0), validation
        self._draw, self._exclusion = draw, exclusion
        self.record: dict[str, Any] = {
            **record,
            "train_pairs": len(self.train),
            "validation_pairs": len(validation),
            "logs_sha256": latents.logs.fingerprint,
            "latents_sha256": fingerprint_arrays(latents.values.numpy()),
        }
        if latents.model:
            self.record["model"] = latents.model
        if exclusion.sets:
            rows = [torch.cat([getattr(part, end) for part in (self.train, validation)]) for end in ("first", "second")]
            self.record["exclusion"] = exclusion.prove(rows[0].numpy(), rows[1].numpy())
            self.record["exclusion"]["rows"] = len(torch.cat(rows).unique())

    def epoch(self, number: int) -> PairSet:
        """Fresh training pairs for an epoch; epoch 0 is `train`."""
        if number == 0:
            return self.train
        drawn = self._draw(number)
        self._exclusion.prove(drawn.first.numpy(), drawn.second.numpy())
        return drawn

    def shuffled(self, validation: bool = True) -> Self:
        """The shuffled control: the same pairs with permuted labels.

        Validation labels are permuted too, unless told otherwise. With true ones the best-validation epoch would be
        chosen by the very structure the control must not have.
        """
        control = copy.copy(self)
        seed, draw = self.record["seed"], self._draw
        rng = generator(seed, "shuffled-labels")
        control.train = self.train.permuted(rng)
        control.validation = self.validation.permuted(rng) if validation else self.validation
        control._draw = lambda epoch: draw(epoch).permuted(generator(seed, "shuffled-labels", epoch))
        control.record = {
            **self.record,
            "labels": "shuffled",
            "shuffled": self.record["labels"],
            "validation_labels_shuffled": validation,
        }
        return control


def exclude_from(logs: Logs, exclude: EvaluationSet | Sequence[EvaluationSet] | None) -> Exclusion:
    """What no, one or several evaluation sets forbid in the logs."""
    if isinstance(exclude, EvaluationSet):
        return Exclusion(logs, (exclude,))
    if exclude is not None and not isinstance(exclude, list | tuple):
        raise ReachcostError(f"exclude= takes evaluation sets, not {_short(exclude)}: see task.evaluation_set(name)")
    return Exclusion(logs, tuple(exclude or ()))


def split_episodes(usable: np.ndarray, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Episodes to learn from, and those to judge by; the same ones for both where nothing is held out.

    >>> [len(part) for part in split_episodes(np.arange(20), 0.1, seed=0)]
    [18, 2]
    """
    held_out = max(1, round(holdout * len(usable))) if holdout else 0
    shuffled = generator(seed, "holdout").permutation(usable)
    return (shuffled[held_out:], shuffled[:held_out]) if held_out else (usable, usable)


def _short(value: object) -> str:
    return repr(value) if isinstance(value, str | bool | int) else type(value).__name__


def require_latents(latents: object) -> None:
    """Refuse logs that were not encoded."""
    if not isinstance(latents, Latents):
        raise ReachcostError(f"pairs are drawn from latents, not from {_short(latents)}: call encode_logs(model, logs)")


def require_counts(count: int, validation: int, holdout: float = 0.0) -> None:
    """Refuse numbers of pairs that cannot be met."""
    for name, number in (("count", count), ("validation", validation)):
        require_type(number, int, name, "give a whole number of pairs")
    if not 0 <= holdout < 1 or count < 1 or validation < 1:
        raise ReachcostError(
            f"count {count}, validation {validation} and holdout {holdout} cannot all be met: "
            "ask for at least one pair of each kind and a holdout in [0, 1)"
        )
