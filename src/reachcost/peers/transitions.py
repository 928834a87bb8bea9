"""Transitions of logs, each with a goal: the data of objectives without labelled pairs (see `distances.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, require_type
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import sample_allowed, split_episodes

VALIDATION = 5000  # number of validation transitions

Rows = tuple[Tensor, Tensor, Tensor]
"""Log rows before and after N transitions of `stride` steps, and of their goals: [N] each."""


class Transitions:
    """Random transitions of logged episodes with goals, which are later rows of the same episode or any rows.

    Args:
        latents: Encoded logs.
        stride: Steps of a transition.
        future: Share of the goals that are later rows of the transition's episode; the others are any rows.
        exclude, holdout, seed: As for `TemporalPairs`.

    Attributes:
        validation: Transitions of held-out episodes with later rows as goals.
        gap: Steps from the beginning of each of these to its goal [N].
        record: Settings, with the measured overlap with evaluation sets.
    """

    def __init__(
        self,
        latents: Latents,
        stride: int = 1,
        future: float = 0.0,
        exclude: EvaluationSets = None,
        holdout: float = 0.1,
        seed: int = 0,
    ) -> None:
        require_type(stride, int, "stride", "give a whole number of steps")
        if stride < 1 or not 0 <= holdout < 1 or not 0 <= future <= 1:
            raise ReachcostError(
                f"stride is {stride}, holdout {holdout} and future {future}: give a stride of 1 or more, and shares "
                "from 0 to 1"
            )
        self._exclusion, learned, held_out = split_episodes(latents, exclude, holdout, seed, length=stride + 1)
        logs = latents.logs
        self.latents, self.stride, self.future, self.seed = latents.values, stride, future, seed
        self._training = _Sampler(logs, learned, stride)
        rng = generator(seed, "judged-transitions")
        self.validation = _Sampler(logs, held_out, stride).sample(VALIDATION, 1.0, self._exclusion, rng)
        self.gap = self.validation[2] - self.validation[0]
        self.record: dict[str, Any] = {
            "stride": stride,
            "future": future,
            "holdout": holdout,
            "held_out_episodes": len(held_out) if holdout else 0,
            "transitions": len(self._training.starts),
            "logs_sha256": logs.fingerprint,
            "latents_sha256": fingerprint_arrays(latents.values.numpy()),
            **({"model": latents.model} if latents.model else {}),
        }
        if self._exclusion.sets:
            self.record["exclusion"] = self._prove(self.validation)

    def epoch(self, number: int, count: int) -> Rows:
        """`count` transitions with goals for an epoch, 0 for the first."""
        rng = generator(self.seed, "transitions", number)
        sampled = self._training.sample(count, self.future, self._exclusion, rng)
        if self._exclusion.sets:
            self._prove(sampled)
        return sampled

    def _prove(self, sampled: Rows) -> dict[str, Any]:
        return self._exclusion.prove(*_pairs(*(rows.numpy() for rows in sampled)))


class _Sampler:
    """The rows of some episodes."""

    def __init__(self, logs: Logs, episodes: np.ndarray, stride: int) -> None:
        used = logs.in_episodes(episodes)
        self.rows, self.stride = np.flatnonzero(used), stride
        self.starts = logs.window_starts(stride + 1)
        self.starts = self.starts[used[self.starts]]
        self.last = np.repeat(logs.offsets + logs.lengths - 1, logs.lengths)

    def sample(self, count: int, future: float, exclusion: Exclusion, rng: Generator) -> Rows:
        """Sample transitions and goals, without any two rows that are an evaluation pair."""

        def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
            start = rng.choice(self.starts, size)
            later = rng.integers(start + self.stride, self.last[start] + 1)
            anywhere = rng.choice(self.rows, size)
            return start, np.where(rng.random(size) < future, later, anywhere)

        def refused(before: np.ndarray, goal: np.ndarray) -> np.ndarray:
            return exclusion.bans(*_pairs(before, before + self.stride, goal)).reshape(3, -1).any(0)

        before, goal = sample_allowed(count, draw, refused)
        return torch.from_numpy(before), torch.from_numpy(before + self.stride), torch.from_numpy(goal)


def _pairs(before: np.ndarray, after: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of rows that a loss compares: first [3 N], second [3 N]."""
    return np.concatenate([before, before, after]), np.concatenate([after, goal, goal])
