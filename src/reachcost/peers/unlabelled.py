"""One training loop for objectives that need no labels: transitions and goals go in, a head comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from reachcost.core.arrays import row_reader
from reachcost.core.devices import choose_device, device_of
from reachcost.core.parallel import one_thread
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import torch_seed
from reachcost.errors import ReachcostError, require_type
from reachcost.fitting.loop import Optimiser
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.peers.transitions import Transitions

METRICS = ("iqe", "mrn", "euclidean")
"""Heads that are 0 from a latent to itself and obey the triangle inequality: what these objectives build on."""


class Objective(ABC):
    """What a head is to become.

    Args:
        head: The head that learns.
        recipe: How it is trained.
        stride: Steps of a transition.
    """

    def __init__(self, head: LearnedHead, recipe: Recipe, stride: int) -> None:
        self.head, self.recipe, self.stride = head, recipe, stride

    @abstractmethod
    def loss(self, before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
        """What an update lowers, of latents [B, D] each -> []."""

    @abstractmethod
    def updated(self) -> None:
        """What there is to do after every update."""

    @abstractmethod
    def judge(self, before: Tensor, after: Tensor, goal: Tensor) -> dict[str, float]:
        """How far it got, on latents [N, D] of held-out episodes."""


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
    """Train a new head by an objective on so many transitions an epoch; deterministic from its seed.

    The last epoch is kept: losses of a moving target, or under a moving multiplier, do not tell which is best.
    `validation_rho` of its record is the rank correlation with gaps of held-out episodes.
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
    """Refuse heads that are no distances, and what would be ignored."""
    if recipe.head not in METRICS:
        raise ReachcostError(f"the head {recipe.head!r} has no triangle inequality: choose one of {', '.join(METRICS)}")
    if recipe.loss != "regression" or not recipe.fresh:
        raise ReachcostError("transitions are drawn anew in every epoch, and nothing is ranked: leave loss and fresh")
    if count < 1:
        raise ReachcostError(f"count is {count}: ask for at least one transition an epoch")


def _train(objective: Objective, transitions: Transitions, count: int, progress: Progress) -> list[dict[str, float]]:
    recipe, head = objective.recipe, objective.head
    optimiser = Optimiser(head, recipe, count)
    read, device, curve = row_reader(transitions.latents), device_of(head), list[dict[str, float]]()
    for epoch in progress.track(range(1, recipe.epochs + 1), "epoch"):
        drawn, total = transitions.epoch(epoch - 1, count), 0.0
        columns = (rows.split(recipe.batch_size) for rows in (drawn.before, drawn.after, drawn.goal))
        for batch in zip(*columns, strict=True):
            loss = objective.loss(*(read(rows).to(device) for rows in batch))
            optimiser.step(loss)
            objective.updated()
            total += loss.item() * len(batch[0])
        if not abs(total) < float("inf"):
            raise ReachcostError(f"the loss became {total} in epoch {epoch}: lower the learning rate")
        curve.append({"epoch": epoch, "train_loss": total / count, **_judge(objective, transitions)})
        progress.note(f"rank correlation with held-out gaps {curve[-1]['validation_rho']:.3f}")
    return curve


@torch.no_grad()
def _judge(objective: Objective, transitions: Transitions) -> dict[str, float]:
    from scipy.stats import spearmanr  # which takes as long to import as half of torch

    judged, read, device = transitions.judged, row_reader(transitions.latents), device_of(objective.head)
    before, after, goal = (read(rows).to(device) for rows in (judged.before, judged.after, judged.goal))
    order: Any = spearmanr(objective.head(before, goal).cpu().numpy(), transitions.gap.numpy())
    return {"validation_rho": float(order.statistic), **objective.judge(before, after, goal)}
