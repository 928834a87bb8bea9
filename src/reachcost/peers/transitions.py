"""Training heads on transitions of logs, each with a goal, without labelled pairs (see `qrl.py` and `hilp.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from reachcost.core.arrays import fingerprint_arrays, row_reader
from reachcost.core.devices import choose_device, device_of
from reachcost.core.parallel import one_thread
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator, torch_seed
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, require_type
from reachcost.fitting.loop import Optimiser
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import split_episodes

VALIDATION = 5000  # number of validation transitions
METRICS = ("iqe", "mrn", "euclidean")  # heads with the triangle inequality, which these objectives require


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
        self.latents, self.future, self.seed = latents.values, future, seed
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
            self.record["exclusion"] = _prove(self._exclusion, self.validation)

    def epoch(self, number: int, count: int) -> Rows:
        """`count` transitions with goals for an epoch, 0 for the first."""
        rng = generator(self.seed, "transitions", number)
        sampled = self._training.sample(count, self.future, self._exclusion, rng)
        if self._exclusion.sets:
            _prove(self._exclusion, sampled)
        return sampled


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
                return torch.from_numpy(before), torch.from_numpy(before + self.stride), torch.from_numpy(goal)
        raise ReachcostError(
            f"{len(missing)} transitions and goals were still evaluation pairs after 100 attempts: log more episodes, "
            "or exclude less"
        )


def _pairs(before: np.ndarray, after: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of rows that a loss compares: first [3 N], second [3 N]."""
    return np.concatenate([before, before, after]), np.concatenate([after, goal, goal])


def _prove(exclusion: Exclusion, sampled: Rows) -> dict[str, Any]:
    return exclusion.prove(*_pairs(*(rows.numpy() for rows in sampled)))


class Objective(ABC):
    """An objective for a head, with its recipe and the steps of a transition."""

    def __init__(self, head: LearnedHead, recipe: Recipe, stride: int) -> None:
        self.head, self.recipe, self.stride = head, recipe, stride

    @abstractmethod
    def loss(self, before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
        """The loss to minimise, of latents [B, D] each -> []."""

    @abstractmethod
    def updated(self) -> None:
        """Called after every update."""

    @abstractmethod
    def validate(self, before: Tensor, after: Tensor, goal: Tensor) -> dict[str, float]:
        """Values for the curve, from latents [N, D] of held-out episodes."""


def learn(
    name: str,
    recipe: Recipe,
    objective: Callable[[LearnedHead], Objective],
    transitions: Transitions,
    count: int,
    settings: dict[str, Any],
    *,
    seed: int,
    device: str,
    progress: Progress | bool | None,
) -> LearnedHead:
    """Train a new head by an objective on `count` transitions per epoch; deterministic given the seed.

    The last epoch is kept, because losses with a moving target or multiplier cannot be compared between epochs.
    `record["validation_rho"]` is the rank correlation with gaps of held-out episodes.
    """
    require_type(seed, int, "seed", "give a whole number")
    require_type(count, int, "count", "give a whole number of transitions")
    _require_settings(recipe, count)
    progress = as_progress(progress)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, name))
        head = recipe.build(transitions.latents.shape[1]).to(choose_device(device))
        curve = _train(objective(head), transitions, count, progress)
        head.cpu()
    head.record = {
        "recipe": asdict(recipe),
        "objective": {"name": name, **settings},
        "seed": seed,
        "pairs": {"labels": name, "seed": seed, "train_pairs": count, **transitions.record},
        "validation_rho": curve[-1]["validation_rho"],
        "curve": curve,
    }
    return head.eval().requires_grad_(False)


def _require_settings(recipe: Recipe, count: int) -> None:
    """Refuse heads without the triangle inequality, and settings that would be ignored."""
    if recipe.head not in METRICS:
        raise ReachcostError(f"the head {recipe.head!r} has no triangle inequality: choose one of {', '.join(METRICS)}")
    if recipe.loss != "regression" or not recipe.fresh:
        raise ReachcostError("transitions are fresh in every epoch, and nothing is ranked: leave loss and fresh out")
    if count < 1:
        raise ReachcostError(f"count is {count}: give at least one transition per epoch")


def _train(objective: Objective, transitions: Transitions, count: int, progress: Progress) -> list[dict[str, float]]:
    recipe, head = objective.recipe, objective.head
    optimiser = Optimiser(head, recipe, count)
    read, device, curve = row_reader(transitions.latents), device_of(head), list[dict[str, float]]()
    for epoch in progress.track(range(1, recipe.epochs + 1), "epoch"):
        sampled, total = transitions.epoch(epoch - 1, count), 0.0
        columns = (rows.split(recipe.batch_size) for rows in sampled)
        for batch in zip(*columns, strict=True):
            loss = objective.loss(*(read(rows).to(device) for rows in batch))
            optimiser.step(loss)
            objective.updated()
            total += loss.item() * len(batch[0])
        if not abs(total) < float("inf"):
            raise ReachcostError(f"the loss became {total} in epoch {epoch}: lower the learning rate")
        curve.append({"epoch": epoch, "train_loss": total / count, **_validate(objective, transitions)})
        progress.note(f"rank correlation with held-out gaps {curve[-1]['validation_rho']:.3f}")
    return curve


@torch.no_grad()
def _validate(objective: Objective, transitions: Transitions) -> dict[str, float]:
    from scipy.stats import spearmanr  # slow to import

    read, device = row_reader(transitions.latents), device_of(objective.head)
    before, after, goal = (read(rows).to(device) for rows in transitions.validation)
    order: Any = spearmanr(objective.head(before, goal).cpu().numpy(), transitions.gap.numpy())
    return {"validation_rho": float(order.statistic), **objective.validate(before, after, goal)}
