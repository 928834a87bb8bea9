"""Training pairs for `fit`: two log rows and a label, from any source."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.seeding import generator
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion


@dataclass(frozen=True)
class PairSet:
    """P pairs of log rows in random order: rows of both latents [P], [P], and the label, float32 [P]."""

    first: Tensor
    second: Tensor
    gap: Tensor

    def __len__(self) -> int:
        return len(self.gap)

    def permuted(self, rng: Generator) -> PairSet:
        """The same pairs with permuted labels."""
        return PairSet(self.first, self.second, self.gap[torch.from_numpy(rng.permutation(len(self)))])


class Pairs:
    """Training and validation pairs with their labels.

    Subclasses pass a function that samples the training pairs of an epoch, from 0, and their settings as JSON values,
    including `seed`. Every sample is checked against the exclusion.

    Attributes:
        train: Training pairs of the first epoch, or of all epochs if the recipe has `fresh=False`.
        validation: Validation pairs.
        record: Settings of the pairs, with their measured overlap with evaluation sets.
        default_recipe: Default recipe for labels of this source.
    """

    default_recipe: Recipe = Recipe()

    def __init__(
        self,
        latents: Latents,
        sample: Callable[[int], PairSet],
        validation: PairSet,
        exclusion: Exclusion,
        record: dict[str, Any],
    ) -> None:
        self.latents, self.logs, self.train, self.validation = latents.values, latents.logs, sample(0), validation
        self._sample, self._exclusion = sample, exclusion
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
        sampled = self._sample(number)
        self._exclusion.prove(sampled.first.numpy(), sampled.second.numpy())
        return sampled

    def shuffled(self, validation: bool = True) -> Self:
        """The shuffled control: the same pairs with permuted labels, by default also for validation.

        True validation labels would select the epoch by the structure that the control must not have.
        """
        control = copy.copy(self)
        seed, sample = self.record["seed"], self._sample
        rng = generator(seed, "shuffled-labels")
        control.train = self.train.permuted(rng)
        control.validation = self.validation.permuted(rng) if validation else self.validation
        control._sample = lambda epoch: sample(epoch).permuted(generator(seed, "shuffled-labels", epoch))
        control.record = {
            **self.record,
            "labels": "shuffled",
            "shuffled": self.record["labels"],
            "validation_labels_shuffled": validation,
        }
        return control


def sample_allowed(
    count: int,
    sample: Callable[[int], tuple[np.ndarray, ...]],
    refused: Callable[..., np.ndarray],
    remedy: str = "log more episodes, or evaluate on other pairs",
) -> tuple[np.ndarray, ...]:
    """Sample `count` pairs, and sample refused ones again.

    `sample` returns columns [N] of N pairs, and `refused` whether pairs with these columns are refused, bool [N].
    """
    columns = sample(count)
    again = np.flatnonzero(refused(*columns))
    for _ in range(99):
        if not len(again):
            return columns
        for column, part in zip(columns, sample(len(again)), strict=True):
            column[again] = part
        again = again[refused(*(column[again] for column in columns))]
    if len(again):
        raise ReachcostError(
            f"{len(again)} of {count} pairs were still evaluation pairs or without a path after 100 attempts: {remedy}"
        )
    return columns


def split_episodes(
    latents: Latents, holdout: float, seed: int, length: int = 2
) -> tuple[Exclusion, np.ndarray, np.ndarray]:
    """The exclusion, and training and validation episodes of `length` rows or more; all for both without holdout."""
    require_latents(latents)
    logs, exclusion = latents.logs, Exclusion(latents.logs, latents.excluded)
    usable = np.setdiff1d(np.flatnonzero(logs.lengths >= length), exclusion.episodes)
    count = max(1, round(holdout * len(usable))) if holdout else 0
    shuffled = generator(seed, "holdout").permutation(usable) if count else usable
    training, validation = shuffled[count:], shuffled[:count] if count else usable
    if not len(training):
        counts = {
            "too short": int((logs.lengths < length).sum()),
            "excluded": len(exclusion.episodes),
            "held out": len(validation),
        }
        reasons = ", ".join(f"{number} {reason}" for reason, number in counts.items() if number)
        raise ReachcostError(
            f"none of {len(logs)} episodes is left for training ({reasons}): log more, or exclude less"
        )
    return exclusion, training, validation


def require_latents(latents: object) -> None:
    """Refuse anything but encoded logs."""
    require_type(latents, Latents, "latents", "call encode_logs(model, logs)")


def require_counts(count: int, validation: int, holdout: float = 0.0) -> None:
    """Refuse numbers of pairs below 1 and impossible shares."""
    for name, number in (("count", count), ("validation", validation)):
        require_type(number, int, name, "give a whole number of pairs")
    if not 0 <= holdout < 1 or count < 1 or validation < 1:
        raise ReachcostError(
            f"count is {count}, validation {validation} and holdout {holdout}: give at least one pair of each kind, "
            "and a holdout from 0 to below 1"
        )
