"""Quasimetric learning (QRL, Wang et al. 2023): push everything apart that no logged transition holds together.

A quasimetric that is at most one step along every logged transition is at most the shortest way anywhere, by the
triangle inequality. The largest such quasimetric is the shortest way: random pairs are pushed apart, and a multiplier
that rises while transitions are longer than a step keeps them short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.core.progress import Progress
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.peers.transitions import Transitions
from reachcost.peers.unlabelled import Objective, learn

USUAL = Recipe(head="iqe", epochs=5, learning_rate=2e-3, expectile=0.5)
"""How a head is trained, unless told otherwise; nothing of it leans to short times."""
ASCENT = 0.02
"""How far the logarithm of the multiplier moves in an update, at most."""
SOFTNESS = 5.0
"""How sharply pushing ends at `far`, as in the paper's mazes: it fades over a fifth of it."""


def fit_qrl(
    latents: Latents,
    recipe: Recipe | None = None,
    *,
    count: int = 100_000,
    stride: int = 1,
    far: float | None = None,
    tolerance: float = 0.1,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    holdout: float = 0.1,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Learn the largest quasimetric under which no logged transition takes longer than it did. No labels are needed.

    Args:
        latents: Encoded logs.
        recipe: How the head is built and trained, of kind iqe, mrn or (where the way back is as long) euclidean.
        count: Transitions of an epoch.
        stride: Steps of a transition; more where one step hardly changes a latent.
        far: Steps beyond which nothing needs to be pushed further; by default those of the longest episode.
        tolerance: How much longer than they are transitions may be, root mean square, as a share of them.
        exclude: Evaluation sets to keep out, as for `TemporalPairs`.
        holdout: Share of the episodes that nothing is learned from; the record tells how the head does on them.
        seed: Seed of weights and transitions.
        device: Where it is trained; `auto` is a GPU if there is one. The head that is returned is on the processor.
        progress: True shows how far it is.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(100))
    >>> fit_qrl(latents, Recipe(head="mrn", epochs=2), count=5000).record["validation_rho"] > 0.5
    True
    """
    require_type(recipe, Recipe | None, "recipe", 'give a Recipe, say rc.Recipe(head="iqe")')
    transitions = Transitions(latents, stride, 0.0, exclude, holdout, seed)
    chosen, reach = recipe or USUAL, float(latents.logs.lengths.max()) if far is None else far
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
    """Pairs as far apart as transitions allow: a Lagrangian, whose multiplier rises while they are too long."""

    def __init__(self, head: LearnedHead, recipe: Recipe, stride: int, far: float, tolerance: float) -> None:
        super().__init__(head, recipe, stride)
        self.far, self.tolerance = far / stride, tolerance
        self.multiplier, self.excess = 1.0, torch.zeros(())

    def loss(self, before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
        """How near random pairs are, and what transitions that are too long cost; in units of a transition."""
        to_goal, to_next = (self.head(before[:, None], torch.stack([goal, after], dim=1)) / self.stride).unbind(1)
        near = functional.softplus(self.far - to_goal, beta=SOFTNESS / self.far).mean()
        excess = functional.relu(to_next - 1).square().mean()
        self.excess = excess.detach()
        return near + self.multiplier * excess

    def updated(self) -> None:
        """Dual ascent, on the logarithm, in small steps: the multiplier may have to grow a thousandfold."""
        step = min(max(self.excess.item() / self.tolerance**2 - 1, -1.0), 1.0)
        self.multiplier *= math.exp(ASCENT * step)

    def judge(self, before: Tensor, after: Tensor, goal: Tensor) -> dict[str, float]:
        """Root mean square of what transitions are too long by, as a share of them, and the multiplier."""
        excess = functional.relu(self.head(before, after) / self.stride - 1).square().mean().sqrt()
        return {"excess": excess.item(), "multiplier": self.multiplier}
