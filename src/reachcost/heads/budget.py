"""Reachability within budgets: how probable is it that a goal is reached within so many steps?

The idea of RC-aux (budget-conditioned reachability), asked of latents that stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.heads.base import LearnedHead, two_hidden_layers


class BudgetHead(LearnedHead):
    """Predicts how probably a goal is reached within 1, 2, ... K times `scale` steps; as a cost, the steps expected.

    Each budget multiplies the probability of not having arrived by a share of its own, so that a larger budget never
    makes arriving less probable. Steps are expected within the largest budget: who never arrives needs all of it.

    Args:
        latent_dim: D.
        budgets: K, the number of budgets.
        hidden: Width of the two hidden layers.
        scale: Steps from one budget to the next.

    Shape:
        z [..., D] and goal [..., D], broadcast against each other, to steps [...].

    >>> head = BudgetHead(latent_dim=10, budgets=4, hidden=16, scale=5.0)
    >>> z, goal = torch.randn(2, 6, 10), torch.randn(2, 1, 10)
    >>> within = head.within(z, goal)
    >>> within.shape, bool((within.diff(dim=-1) >= 0).all())
    (torch.Size([2, 6, 4]), True)
    >>> torch.allclose(head(z, goal), 5 * (1 - within).sum(-1))
    True
    """

    kind = "budget"

    def __init__(self, latent_dim: int, budgets: int = 20, hidden: int = 256, scale: float = 5.0) -> None:
        super().__init__(latent_dim, scale)
        self.budgets, self.hidden = budgets, hidden
        self.mlp = two_hidden_layers(4 * latent_dim, hidden, budgets)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head."""
        return {**super().config, "budgets": self.budgets, "hidden": self.hidden}

    def log_missed(self, z: Tensor, goal: Tensor) -> Tensor:
        """Logarithm of the probability that each budget is too small [..., K]."""
        z, goal = torch.broadcast_tensors(z, goal)
        difference = z - goal
        rates = functional.softplus(self.mlp(torch.cat([z, goal, difference, difference.abs()], dim=-1)))
        return -rates.cumsum(-1)

    def within(self, z: Tensor, goal: Tensor) -> Tensor:
        """Probability that the goal is reached within each budget [..., K]."""
        return -torch.expm1(self.log_missed(z, goal))

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """Budgets that are expected to be too small."""
        return self.log_missed(z, goal).exp().sum(-1)

    def reached(self, steps: Tensor) -> Tensor:
        """Which budgets suffice for so many steps [...], infinitely many among them: bool [..., K]."""
        return steps[..., None] <= self.scale * torch.arange(1, self.budgets + 1, device=steps.device)

    def losses(self, z: Tensor, goal: Tensor, steps: Tensor) -> Tensor:
        """Cross-entropy of each pair, averaged over the budgets: z, goal [P, D] and the steps between them [P] -> [P].

        Steps may be infinite: not known ever to arrive.
        """
        missed = self.log_missed(z, goal)
        arrived = torch.log(-torch.expm1(missed.clamp(max=-1e-6)))
        return -torch.where(self.reached(steps), arrived, missed).mean(-1)
