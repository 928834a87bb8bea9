"""Distances learned from logged transitions alone, without labelled pairs: QRL and HILP.

QRL (Wang et al. 2023) learns the largest quasimetric of at most one step per logged transition. By the triangle
inequality it is nowhere more than the shortest path, and the largest one is the shortest path. Random pairs are pushed
apart, and a multiplier, which grows while transitions are longer than a step, keeps transitions short.

HILP (Park et al. 2024) learns distances of embeddings by temporal differences. The distance before a transition is one
step more than the distance after it, which a slowly updated copy of the head estimates. Of many transitions from a
state the fastest counts, so the loss prefers short distances.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn import functional

from reachcost.core.arrays import fingerprint_arrays, row_reader
from reachcost.core.devices import device_of
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.fitting.loop import Curve, Optimiser, train_seeded
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import require_latents, sample_allowed, split_episodes

METRICS = ("iqe", "mrn", "euclidean")  # heads with the triangle inequality, which these objectives require
QRL_RECIPE = Recipe(head="iqe", epochs=5, learning_rate=2e-3, expectile=0.5)
# The default expectile of 0.05 corresponds to 0.95 in HILP, where the sign is reversed.
HILP_RECIPE = Recipe(head="euclidean", epochs=5, learning_rate=2e-3)
ASCENT = 0.02  # maximum change of the logarithm of the multiplier per update
SOFTNESS = 5.0  # pushing fades over the last 1 / SOFTNESS of `far`, as in the paper's mazes
VALIDATION = 5000  # number of validation transitions

Rows = tuple[Tensor, Tensor, Tensor]
"""Log rows before and after N transitions of `stride` steps, and of their goals: [N] each."""


def fit_qrl(
    latents: Latents,
    recipe: Recipe | None = None,
    *,
    count: int = 100_000,
    stride: int = 1,
    far: float | None = None,
    tolerance: float = 0.1,
    exclude: EvaluationSets = None,
    holdout: float = 0.1,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Train the largest quasimetric under which no logged transition takes longer than logged.

    Arguments not listed are as for `TemporalPairs` and `fit`.

    Args:
        recipe: How the head is built and trained. Its kind is iqe, mrn, or euclidean if return paths have equal length.
        count: Number of transitions per epoch.
        stride: Steps of a transition; use more if one step hardly changes a latent.
        far: Steps beyond which pairs are not pushed further; by default those of the longest episode.
        tolerance: Allowed root mean square excess of transition lengths, relative to the logged length.
    """
    require_latents(latents)
    transitions = Transitions(latents.without(exclude), stride, 0.0, holdout, seed)
    reach = float(latents.logs.lengths.max()) if far is None else far
    if not 0 < reach < float("inf") or not 0 < tolerance < float("inf"):
        raise ReachcostError(f"far is {reach} and tolerance {tolerance}: make both positive")
    settings = {"far": reach, "tolerance": tolerance}
    return _learn("qrl", _Pushed, settings, recipe or QRL_RECIPE, transitions, count, device, progress)


def fit_hilp(
    latents: Latents,
    recipe: Recipe | None = None,
    *,
    count: int = 100_000,
    stride: int | None = None,
    discount: float = 0.98,
    future: float = 0.6,
    follow: float = 0.05,
    exclude: EvaluationSets = None,
    holdout: float = 0.1,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Train a head on the discounted time of the fastest logged paths.

    Arguments not listed are as for `TemporalPairs` and `fit`.

    Args:
        recipe: How the head is built and trained. Its kind is euclidean, or iqe or mrn if return paths are longer.
        count: Number of transitions per epoch.
        stride: Steps of a transition; by default a sixteenth of the median episode. Learned distances grow by about one
            transition per update of the copy, so very many transitions take too long.
        discount: Factor on the distance after a transition; distances are at most 1 / (1 - discount) transitions.
        future: Share of the goals that are later rows of the transition's episode; the others are any rows.
        follow: Share of the head's weights that the copy takes over after every update.
    """
    require_latents(latents)
    settings = {"discount": discount, "follow": follow}
    for name, share in settings.items():
        if not 0 < share < 1:
            raise ReachcostError(f"{name} is {share}: give a number between 0 and 1")
    if stride is None:
        stride = max(1, int(np.median(latents.logs.lengths)) // 16) if len(latents.logs) else 1
    transitions = Transitions(latents.without(exclude), stride, future, holdout, seed)
    return _learn("hilp", _Bootstrapped, settings, recipe or HILP_RECIPE, transitions, count, device, progress)


class Transitions:
    """Random transitions of `stride` steps of logged episodes, with goals.

    A share `future` of the goals are later rows of the transition's episode; the others are any rows. Other arguments
    are as for `TemporalPairs`. In `validation`, transitions of held-out episodes, all goals are later rows.
    """

    def __init__(
        self,
        latents: Latents,
        stride: int = 1,
        future: float = 0.0,
        holdout: float = 0.1,
        seed: int = 0,
    ) -> None:
        require_type(stride, int, "stride", "give a whole number of steps")
        if stride < 1 or not 0 <= holdout < 1 or not 0 <= future <= 1:
            raise ReachcostError(
                f"stride is {stride}, holdout {holdout} and future {future}: give a stride of 1 or more, and shares "
                "from 0 to 1"
            )
        self._exclusion, self._learned, held_out = split_episodes(latents, holdout, seed, length=stride + 1)
        self.latents, self.logs = latents.values, latents.logs
        self.stride, self.future, self.seed = stride, future, seed
        self.validation = self._sample(held_out, VALIDATION, 1.0, generator(seed, "judged-transitions"))
        self.record: dict[str, Any] = {
            "stride": stride,
            "future": future,
            "holdout": holdout,
            "held_out_episodes": len(held_out) if holdout else 0,
            "transitions": len(self._starts(self._learned)),
            "logs_sha256": self.logs.fingerprint,
            "latents_sha256": fingerprint_arrays(latents.values.numpy()),
            **({"model": latents.model} if latents.model else {}),
        }
        if self._exclusion.sets:
            self.record["exclusion"] = self._prove(self.validation)

    def epoch(self, number: int, count: int) -> Rows:
        """`count` transitions with goals for an epoch, 0 for the first."""
        rng = generator(self.seed, "transitions", number)
        sampled = self._sample(self._learned, count, self.future, rng)
        self._prove(sampled)
        return sampled

    def _starts(self, episodes: np.ndarray) -> np.ndarray:
        starts = self.logs.window_starts(self.stride + 1)
        return starts[self.logs.in_episodes(episodes)[starts]]

    def _sample(self, episodes: np.ndarray, count: int, future: float, rng: Generator) -> Rows:
        """Sample transitions and goals of some episodes, without any two rows that are an evaluation pair."""
        logs, starts, rows = self.logs, self._starts(episodes), np.flatnonzero(self.logs.in_episodes(episodes))
        end = np.repeat(logs.offsets + logs.lengths, logs.lengths)

        def draw(size: int) -> tuple[np.ndarray, ...]:
            start = rng.choice(starts, size)
            later = rng.integers(start + self.stride, end[start])
            anywhere = rng.choice(rows, size)
            return start, start + self.stride, np.where(rng.random(size) < future, later, anywhere)

        def refused(*columns: np.ndarray) -> np.ndarray:
            return np.logical_or.reduce(self._exclusion.bans(*_pairs(*columns)).reshape(3, -1))

        before, after, goal = map(torch.from_numpy, sample_allowed(count, draw, refused))
        return before, after, goal

    def _prove(self, sampled: Rows) -> dict[str, Any]:
        return self._exclusion.prove(*_pairs(*(rows.numpy() for rows in sampled)))


def _pairs(before: np.ndarray, after: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of rows that a loss compares: first [3 N], second [3 N]."""
    return np.concatenate([before, before, after]), np.concatenate([after, goal, goal])


class _Pushed:
    """QRL, a Lagrangian: random pairs are pushed apart, and the multiplier grows while transitions are too long."""

    def __init__(self, head: LearnedHead, recipe: Recipe, stride: int, far: float, tolerance: float) -> None:
        self.head, self.recipe, self.stride = head, recipe, stride
        self.far, self.tolerance = far / stride, tolerance
        self.multiplier, self.excess = 1.0, torch.zeros(())

    def loss(self, before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
        """Nearness of random pairs plus the penalty of too long transitions, in transitions: [B, D] each -> []."""
        to_goal, to_next = (self.head(before[:, None], torch.stack([goal, after], dim=1)) / self.stride).unbind(1)
        near = functional.softplus(self.far - to_goal, beta=SOFTNESS / self.far).mean()
        excess = functional.relu(to_next - 1).square().mean()
        self.excess = excess.detach()
        return near + self.multiplier * excess

    def updated(self) -> None:
        """Dual ascent on the logarithm, because the multiplier may have to grow a thousandfold."""
        step = min(max(self.excess.item() / self.tolerance**2 - 1, -1.0), 1.0)
        self.multiplier *= math.exp(ASCENT * step)

    def validate(self, before: Tensor, after: Tensor, goal: Tensor) -> dict[str, float]:
        """Root mean square of the relative excess length of transitions, and the multiplier."""
        excess = functional.relu(self.head(before, after) / self.stride - 1).square().mean().sqrt()
        return {"excess": excess.item(), "multiplier": self.multiplier}


class _Bootstrapped:
    """HILP: the target of a distance is one transition plus the distance that a copy of the head predicts after it."""

    def __init__(self, head: LearnedHead, recipe: Recipe, stride: int, discount: float, follow: float) -> None:
        self.head, self.recipe, self.stride = head, recipe, stride
        self.copy = copy.deepcopy(head).requires_grad_(False)
        self.discount, self.follow = discount, follow

    def loss(self, before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
        """The recipe's loss for these targets: [B, D] each -> []."""
        with torch.no_grad():
            target = self.stride / self.head.scale + self.discount * self.copy.scaled(after, goal)
        return self.recipe.losses(self.head.scaled(before, goal), target).mean()

    @torch.no_grad()
    def updated(self) -> None:
        """Move the copy towards the head."""
        for slow, fast in zip(self.copy.parameters(), self.head.parameters(), strict=True):
            slow.lerp_(fast, self.follow)

    def validate(self, before: Tensor, after: Tensor, goal: Tensor) -> dict[str, float]:
        """The loss on held-out episodes."""
        return {"validation_loss": self.loss(before, after, goal).item()}


Objective = _Pushed | _Bootstrapped


def _learn(
    name: str,
    kind: Callable[..., Objective],
    settings: dict[str, float],
    recipe: Recipe,
    transitions: Transitions,
    count: int,
    device: str,
    progress: Progress | bool | None,
) -> LearnedHead:
    """Train a new head by an objective on `count` transitions per epoch; deterministic given the seed.

    The last epoch is kept, because losses with a moving target or multiplier cannot be compared between epochs.
    `record["validation_rho"]` is the rank correlation with gaps of held-out episodes.
    """
    require_type(recipe, Recipe, "recipe", 'give a Recipe, such as rc.Recipe(head="iqe")')
    require_type(transitions.seed, int, "seed", "give a whole number")
    require_type(count, int, "count", "give a whole number of transitions")
    if recipe.head not in METRICS:
        raise ReachcostError(f"the head {recipe.head!r} has no triangle inequality: choose one of {', '.join(METRICS)}")
    if recipe.loss != "regression" or not recipe.fresh:
        raise ReachcostError("transitions are fresh in every epoch, and nothing is ranked: leave loss and fresh out")
    if count < 1:
        raise ReachcostError(f"count is {count}: give at least one transition per epoch")
    seed, reporter = transitions.seed, as_progress(progress)

    def run(head: LearnedHead) -> Curve:
        objective, optimiser = kind(head, recipe, transitions.stride, **settings), Optimiser(head, recipe, count)
        read, device, curve = row_reader(transitions.latents), device_of(head), list[dict[str, float]]()
        for epoch in reporter.track(range(1, recipe.epochs + 1), "epoch"):
            sampled, total = transitions.epoch(epoch - 1, count), 0.0
            for batch in zip(*(rows.split(recipe.batch_size) for rows in sampled), strict=True):
                loss = objective.loss(*(read(rows).to(device) for rows in batch))
                optimiser.step(loss)
                objective.updated()
                total += loss.item() * len(batch[0])
            if not abs(total) < float("inf"):
                raise ReachcostError(f"the loss became {total} in epoch {epoch}: lower the learning rate")
            curve.append({"epoch": epoch, "train_loss": total / count, **_validate(objective, transitions)})
            reporter.note(f"rank correlation with held-out gaps {curve[-1]['validation_rho']:.3f}")
        return curve

    head, curve = train_seeded(name, seed, device, lambda: recipe.build(transitions.latents.shape[1]), run)
    head.record = {
        "recipe": asdict(recipe),
        "objective": {"name": name, **settings},
        "seed": seed,
        "pairs": {"labels": name, "seed": seed, "train_pairs": count, **transitions.record},
        "validation_rho": curve[-1]["validation_rho"],
        "curve": curve,
    }
    return head


@torch.no_grad()
def _validate(objective: Objective, transitions: Transitions) -> dict[str, float]:
    from scipy.stats import spearmanr  # slow to import

    read, device = row_reader(transitions.latents), device_of(objective.head)
    before, after, goal = (read(rows).to(device) for rows in transitions.validation)
    gap = transitions.validation[2] - transitions.validation[0]
    order: Any = spearmanr(objective.head(before, goal).cpu().numpy(), gap.numpy())
    return {"validation_rho": float(order.statistic), **objective.validate(before, after, goal)}
