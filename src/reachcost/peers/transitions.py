"""Transitions of logs, each beside a goal: what heads learn from that need no labelled pairs (`qrl.py`, `hilp.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import exclude_from, require_latents, split_episodes

JUDGED = 5000
"""Transitions that a head is judged by after every epoch."""


@dataclass(frozen=True)
class Drawn:
    """N transitions of one episode each, with a goal: numbers of log rows.

    Attributes:
        before: Row that a transition leads from [N].
        after: Row that it leads to, `stride` steps later [N].
        goal: Row of the goal [N].
    """

    before: Tensor
    after: Tensor
    goal: Tensor


class Transitions:
    """Transitions of logged episodes, drawn at random, and goals: later rows of the same episode, or any rows.

    Args:
        latents: Encoded logs.
        stride: Steps of a transition.
        future: Share of the goals that are later rows of the transition's episode, evenly; the others are any rows.
        exclude: Evaluation sets to keep out, as for `TemporalPairs`; every draw is proved to respect them.
        holdout: Share of the episodes that nothing is learned from; 0 judges by those that are.
        seed: Seed of what is held out and drawn.

    Attributes:
        judged: Transitions of held-out episodes with later rows as goals.
        gap: Steps from the beginning of each of these to its goal [N].
        record: How they came about, with the measured overlap with evaluation sets.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> transitions = Transitions(encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(50)), stride=2)
    >>> drawn = transitions.epoch(0, count=100)
    >>> (drawn.after - drawn.before).unique().tolist()
    [2]
    """

    def __init__(
        self,
        latents: Latents,
        stride: int = 1,
        future: float = 0.0,
        exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
        holdout: float = 0.1,
        seed: int = 0,
    ) -> None:
        require_latents(latents)
        require_type(stride, int, "stride", "give a whole number of steps")
        if stride < 1 or not 0 <= holdout < 1 or not 0 <= future <= 1:
            raise ReachcostError(
                f"stride {stride}, holdout {holdout} and future {future} cannot be met: "
                "a transition takes a step or more, and shares are from 0 to 1"
            )
        logs, self._exclusion = latents.logs, exclude_from(latents.logs, exclude)
        usable = np.setdiff1d(np.flatnonzero(logs.lengths > stride), self._exclusion.episodes)
        learning, judging = split_episodes(usable, holdout, seed)
        if not len(learning):
            raise ReachcostError(
                f"of {len(logs)} episodes {len(usable)} have transitions of {stride} steps to learn from: "
                "log more, exclude less, or give a smaller stride="
            )
        self.latents, self.future, self.seed = latents.values, future, seed
        self._training = _Rows(logs, learning, stride)
        self.judged = _Rows(logs, judging, stride).draw(
            JUDGED, 1.0, self._exclusion, generator(seed, "judged-transitions")
        )
        self.gap = self.judged.goal - self.judged.before
        self.record: dict[str, Any] = {
            "stride": stride,
            "future": future,
            "holdout": holdout,
            "held_out_episodes": len(judging) if holdout else 0,
            "transitions": len(self._training.starts),
            "logs_sha256": logs.fingerprint,
            "latents_sha256": fingerprint_arrays(latents.values.numpy()),
            **({"model": latents.model} if latents.model else {}),
        }
        if self._exclusion.sets:
            self.record["exclusion"] = _prove(self._exclusion, self.judged)

    def epoch(self, number: int, count: int) -> Drawn:
        """So many transitions with their goals for an epoch, 0 for the first."""
        rng = generator(self.seed, "transitions", number)
        drawn = self._training.draw(count, self.future, self._exclusion, rng)
        if self._exclusion.sets:
            _prove(self._exclusion, drawn)
        return drawn


class _Rows:
    """The rows of some episodes."""

    def __init__(self, logs: Logs, episodes: np.ndarray, stride: int) -> None:
        used = logs.in_episodes(episodes)
        self.rows, self.stride = np.flatnonzero(used), stride
        self.starts = logs.window_starts(stride + 1)
        self.starts = self.starts[used[self.starts]]
        self.last = np.repeat(logs.offsets + logs.lengths - 1, logs.lengths)

    def draw(self, count: int, future: float, exclusion: Exclusion, rng: Generator) -> Drawn:
        """Transitions and goals, no two rows of which are an evaluation pair."""
        before, goal = np.empty(count, np.int64), np.empty(count, np.int64)
        missing = np.arange(count)
        for _ in range(100):
            start = before[missing] = rng.choice(self.starts, len(missing))
            later = rng.integers(start + self.stride, self.last[start] + 1)
            anywhere = rng.choice(self.rows, len(missing))
            goal[missing] = np.where(rng.random(len(missing)) < future, later, anywhere)
            pairs = _pairs(before[missing], before[missing] + self.stride, goal[missing])
            missing = missing[exclusion.bans(*pairs).reshape(3, -1).any(0)]
            if not len(missing):
                return Drawn(*(torch.from_numpy(rows) for rows in (before, before + self.stride, goal)))
        raise ReachcostError(
            f"{len(missing)} transitions and goals were still evaluation pairs after 100 draws: log more episodes, "
            "or exclude less"
        )


def _pairs(before: np.ndarray, after: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every two rows that are compared: first [3 N], second [3 N]."""
    return np.concatenate([before, before, after]), np.concatenate([after, goal, goal])


def _prove(exclusion: Exclusion, drawn: Drawn) -> dict[str, Any]:
    return exclusion.prove(*_pairs(drawn.before.numpy(), drawn.after.numpy(), drawn.goal.numpy()))
