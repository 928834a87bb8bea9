"""HILP's distance (Park et al. 2024): embeddings as far apart as the fastest way, learned by temporal differences.

The value of a state for a goal is minus the distance of their embeddings. A transition tells that the distance to any
goal is one step more than it is afterwards. Of many that begin alike the fastest one counts, so the loss leans to short
distances, and a copy of the head that follows slowly says what is left afterwards.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from reachcost.core.progress import Progress
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import require_latents
from reachcost.peers.transitions import Transitions
from reachcost.peers.unlabelled import Objective, learn

USUAL = Recipe(head="euclidean", epochs=5, learning_rate=2e-3)
"""How a head is trained, unless told otherwise; its expectile, 0.05, is HILP's 0.95 seen from the other side."""


def fit_hilp(
    latents: Latents,
    recipe: Recipe | None = None,
    *,
    count: int = 100_000,
    stride: int | None = None,
    discount: float = 0.98,
    future: float = 0.6,
    follow: float = 0.05,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    holdout: float = 0.1,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Learn a distance of embeddings that is the discounted time of the fastest logged ways. No labels are needed.

    Args:
        latents: Encoded logs.
        recipe: How the head is built and trained, of kind euclidean or (where the way back is longer) iqe or mrn.
        count: Transitions of an epoch.
        stride: Steps of a transition; by default a sixteenth of the median episode, or one. Distances grow by about one
            transition each time the copy has followed, so ways of very many are not learned in time.
        discount: What counts of a distance a transition later; none is more than 1 / (1 - discount) transitions.
        future: Share of the goals that are later rows of the transition's episode; the others are any rows.
        follow: Share of the head's weights that its copy takes over after every update.
        exclude: Evaluation sets to keep out, as for `TemporalPairs`.
        holdout: Share of the episodes that nothing is learned from; the record tells how the head does on them.
        seed: Seed of weights and transitions.
        device: Where it is trained; `auto` is a GPU if there is one. The head that is returned is on the processor.
        progress: True shows how far it is.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(100))
    >>> fit_hilp(latents, Recipe(head="euclidean", epochs=2), count=5000).record["validation_rho"] > 0.5
    True
    """
    require_type(recipe, Recipe | None, "recipe", 'give a Recipe, say rc.Recipe(head="euclidean")')
    settings = {"discount": discount, "follow": follow}
    for name, share in settings.items():
        if not 0 < share < 1:
            raise ReachcostError(f"{name} is {share}: choose one between 0 and 1")
    require_latents(latents)
    chosen, steps = recipe or USUAL, usual_stride(latents) if stride is None else stride
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


def usual_stride(latents: Latents) -> int:
    """Steps of a transition of which the median episode has sixteen."""
    lengths = latents.logs.lengths
    return max(1, int(np.median(lengths)) // 16) if len(lengths) else 1


class _Bootstrapped(Objective):
    """A distance is labelled by a transition, and what a copy of the head says is left after it."""

    def __init__(self, head: LearnedHead, recipe: Recipe, stride: int, discount: float, follow: float) -> None:
        super().__init__(head, recipe, stride)
        self.copy = copy.deepcopy(head).requires_grad_(False)
        self.discount, self.follow = discount, follow

    def loss(self, before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
        """The recipe's loss of these labels."""
        with torch.no_grad():
            told = self.stride / self.head.scale + self.discount * self.copy.scaled(after, goal)
        return self.recipe.losses(self.head.scaled(before, goal), told).mean()

    @torch.no_grad()
    def updated(self) -> None:
        """Let the copy follow."""
        for slow, fast in zip(self.copy.parameters(), self.head.parameters(), strict=True):
            slow.lerp_(fast, self.follow)

    def judge(self, before: Tensor, after: Tensor, goal: Tensor) -> dict[str, float]:
        """The loss on held-out episodes."""
        return {"validation_loss": self.loss(before, after, goal).item()}
