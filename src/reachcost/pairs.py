"""Training pairs: two rows of one logged episode, labelled by how many steps lie between them (the gap)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from reachcost.errors import ReachcostError
from reachcost.evaluation import EvaluationSet, fingerprint_arrays
from reachcost.exclusion import Exclusion
from reachcost.latents import Latents
from reachcost.logs import Logs
from reachcost.seeding import generator

Sampler = Callable[[np.ndarray, Generator], tuple[np.ndarray, np.ndarray]]
"""Episode lengths [P], one per wanted pair, to the earlier and later time of each pair [P], [P]."""


def balanced(lengths: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Gap uniform over the whole episode, then a uniform start: every time scale is seen equally often."""
    gap = rng.integers(1, lengths)
    early = rng.integers(0, lengths - gap)
    return early, early + gap


def random_rows(lengths: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two different rows, uniformly."""
    one = rng.integers(0, lengths)
    other = (one + rng.integers(1, lengths)) % lengths
    return np.minimum(one, other), np.maximum(one, other)


def mostly_endpoints(lengths: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """The rule of TopoNav: the first and last row with probability 0.85, otherwise two random rows."""
    early, late = random_rows(lengths, rng)
    ends = rng.random(len(lengths)) < 0.85
    return np.where(ends, 0, early), np.where(ends, lengths - 1, late)


SAMPLERS: dict[str, Sampler] = {
    "balanced": balanced,
    "random-rows": random_rows,
    "mostly-endpoints": mostly_endpoints,
}


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


class TemporalPairs:
    """Training and validation pairs from logged episodes.

    Args:
        latents: Encoded logs.
        count: Number of training pairs.
        validation: Number of validation pairs.
        sampling: `balanced` (whole horizon), `random-rows` or `mostly-endpoints`.
        exclude: Evaluation sets to keep out: no pair has the exact start and goal states of one, in either order, and
            none comes from an episode that a set drawn from logs took a start or goal from. The overlap is measured
            again after sampling and recorded.
        holdout: Share of the episodes that only validation pairs come from; 0 draws both from all episodes.
        seed: Seed of the pairs.

    >>> from reachcost import ExactTopoNav, encode_logs, make_task
    >>> task = make_task("toponav")
    >>> pairs = TemporalPairs(encode_logs(ExactTopoNav(), task.generate_logs(50)), count=1000, validation=100)
    >>> len(pairs.train), len(pairs.validation)
    (1000, 100)
    """

    def __init__(
        self,
        latents: Latents,
        count: int = 100_000,
        validation: int = 10_000,
        sampling: str = "balanced",
        exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
        holdout: float = 0.0,
        seed: int = 0,
    ) -> None:
        if sampling not in SAMPLERS:
            raise ReachcostError(f"unknown pair sampling {sampling!r}: choose one of {', '.join(SAMPLERS)}")
        if not 0 <= holdout < 1 or count < 1 or validation < 1:
            raise ReachcostError(
                f"count {count}, validation {validation} and holdout {holdout} cannot all be met: "
                "ask for at least one pair of each kind and a holdout in [0, 1)"
            )
        exclusion = Exclusion(latents.logs, (exclude,) if isinstance(exclude, EvaluationSet) else tuple(exclude or ()))
        usable = np.setdiff1d(np.flatnonzero(latents.logs.lengths >= 2), exclusion.episodes)
        held_out = max(1, round(holdout * len(usable))) if holdout else 0
        shuffled = generator(seed, "holdout").permutation(usable)
        for_validation, for_training = (shuffled[:held_out], shuffled[held_out:]) if held_out else (usable, usable)
        self.latents = latents.values
        self.train = _sample(latents.logs, for_training, count, sampling, exclusion, generator(seed, "train-pairs"))
        self.validation = _sample(
            latents.logs, for_validation, validation, sampling, exclusion, generator(seed, "validation-pairs")
        )
        self.record: dict[str, Any] = {
            "labels": "temporal",
            "sampling": sampling,
            "train_pairs": count,
            "validation_pairs": validation,
            "held_out_episodes": held_out,
            "seed": seed,
            "logs_sha256": latents.logs.fingerprint,
            "latents_sha256": fingerprint_arrays(latents.values.numpy()),
        }
        if exclusion.sets:
            first = torch.cat([self.train.first, self.validation.first]).numpy()
            second = torch.cat([self.train.second, self.validation.second]).numpy()
            self.record["exclusion"] = exclusion.prove(first, second)

    def shuffled(self, validation: bool = True) -> TemporalPairs:
        """The shuffled control: the same pairs with permuted labels.

        Validation labels are permuted too, unless told otherwise. With true ones the best-validation epoch would be
        chosen by the very structure the control must not have.
        """
        control = copy.copy(self)
        rng = generator(self.record["seed"], "shuffled-labels")
        control.train = self.train.permuted(rng)
        control.validation = self.validation.permuted(rng) if validation else self.validation
        control.record = {**self.record, "labels": "shuffled", "validation_labels_shuffled": validation}
        return control


def _sample(
    logs: Logs, episodes: np.ndarray, count: int, sampling: str, exclusion: Exclusion, rng: Generator
) -> PairSet:
    if not len(episodes):
        raise ReachcostError("no episode is left with two rows to pair: log more episodes, lower holdout, exclude less")
    first, second = np.empty(count, np.int64), np.empty(count, np.int64)
    missing = np.arange(count)
    for _ in range(100):
        episode = rng.choice(episodes, size=len(missing))
        early, late = SAMPLERS[sampling](logs.lengths[episode], rng)
        swap = rng.random(len(missing)) < 0.5
        first[missing] = logs.offsets[episode] + np.where(swap, late, early)
        second[missing] = logs.offsets[episode] + np.where(swap, early, late)
        missing = missing[exclusion.bans(first[missing], second[missing])]
        if not len(missing):
            break
    else:
        raise ReachcostError(
            f"{len(missing)} pairs were still evaluation pairs after 100 draws: the logs hold little else, "
            "log more episodes or evaluate on other pairs"
        )
    gap = np.abs(first - second).astype(np.float32)
    return PairSet(torch.from_numpy(first), torch.from_numpy(second), torch.from_numpy(gap))
