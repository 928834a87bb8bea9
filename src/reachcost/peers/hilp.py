"""HILP's distance (Park et al. 2024): distances of embeddings, learned by temporal differences.

The value of a state for a goal is minus the distance of their embeddings. The distance before a transition is one step
more than the distance after it, which a slowly updated copy of the head estimates. Of many transitions from a state the
fastest counts, so the loss leans to short distances.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from reachcost.core.progress import Progress
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import require_latents
from reachcost.peers.transitions import Objective, Transitions, learn

# The default expectile of 0.05 corresponds to 0.95 in HILP, where the sign is reversed.
DEFAULT_RECIPE = Recipe(head="euclidean", epochs=5, learning_rate=2e-3)


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
    """Train a head on the discounted time of the fastest logged paths, without labels.

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
    require_type(recipe, Recipe | None, "recipe", 'give a Recipe, say rc.Recipe(head="euclidean")')
    settings = {"discount": discount, "follow": follow}
    for name, share in settings.items():
        if not 0 < share < 1:
            raise ReachcostError(f"{name} is {share}: give a number between 0 and 1")
    require_latents(latents)
    chosen, steps = recipe or DEFAULT_RECIPE, default_stride(latents) if stride is None else stride
    return learn(
        "hilp",
        chosen,
        lambda head: _Bootstrapped(head, chosen, steps, **settings),
        Transitions(latents, steps, future, exclude, holdout, seed),
        count,
        settings,
        seed=seed,
        device=device,
        progress=progress,
    )


def default_stride(latents: Latents) -> int:
    """A sixteenth of the median episode in steps, at least 1."""
    lengths = latents.logs.lengths
    return max(1, int(np.median(lengths)) // 16) if len(lengths) else 1


class _Bootstrapped(Objective):
    """The target of a distance is one transition plus the distance that a copy of the head predicts after it."""

    def __init__(self, head: LearnedHead, recipe: Recipe, stride: int, discount: float, follow: float) -> None:
        super().__init__(head, recipe, stride)
        self.copy = copy.deepcopy(head).requires_grad_(False)
        self.discount, self.follow = discount, follow

    def loss(self, before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
        """The recipe's loss for these targets."""
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
