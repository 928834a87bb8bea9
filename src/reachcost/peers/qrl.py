"""Quasimetric learning (QRL, Wang et al. 2023): push random pairs apart while logged transitions stay short.

By the triangle inequality, a quasimetric of at most one step per logged transition is nowhere more than the shortest
path, and the largest such quasimetric is the shortest path. Random pairs are pushed apart. A multiplier, which grows
while transitions are longer than a step, keeps these short.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.core.progress import Progress
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.peers.transitions import Objective, Transitions, learn

DEFAULT_RECIPE = Recipe(head="iqe", epochs=5, learning_rate=2e-3, expectile=0.5)
ASCENT = 0.02  # maximum change of the logarithm of the multiplier per update
SOFTNESS = 5.0  # pushing fades over the last 1 / SOFTNESS of `far`, as in the paper's mazes


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
    """Train the largest quasimetric under which no logged transition takes longer than logged, without labels.

    Arguments not listed are as for `TemporalPairs` and `fit`.

    Args:
        recipe: How the head is built and trained. Its kind is iqe, mrn, or euclidean if return paths are as long.
        count: Number of transitions per epoch.
        stride: Steps of a transition; use more if one step hardly changes a latent.
        far: Steps beyond which pairs are not pushed further; by default those of the longest episode.
        tolerance: Root mean square of the excess length of transitions that is allowed, as a share of their length.
    """
    require_type(recipe, Recipe | None, "recipe", 'give a Recipe, say rc.Recipe(head="iqe")')
    transitions = Transitions(latents, stride, 0.0, exclude, holdout, seed)
    chosen, reach = recipe or DEFAULT_RECIPE, float(latents.logs.lengths.max()) if far is None else far
    if not 0 < reach < float("inf") or not 0 < tolerance < float("inf"):
        raise ReachcostError(f"far is {reach} and tolerance {tolerance}: make both positive")
    return learn(
        "qrl",
        chosen,
        lambda head: _Pushed(head, chosen, stride, reach, tolerance),
        transitions,
        count,
        {"far": reach, "tolerance": tolerance},
        seed=seed,
        device=device,
        progress=progress,
    )


class _Pushed(Objective):
    """A Lagrangian: random pairs are pushed apart, and the multiplier grows while transitions are too long."""

    def __init__(self, head: LearnedHead, recipe: Recipe, stride: int, far: float, tolerance: float) -> None:
        super().__init__(head, recipe, stride)
        self.far, self.tolerance = far / stride, tolerance
        self.multiplier, self.excess = 1.0, torch.zeros(())

    def loss(self, before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
        """Nearness of random pairs plus the penalty of transitions that are too long, in units of a transition."""
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
