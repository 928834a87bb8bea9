"""Reachability within budgets of steps, the idea of RC-aux, as a head on frozen latents."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.heads.base import LearnedHead, two_hidden_layers


class BudgetHead(LearnedHead):
    """The probability that a goal is reached within 1, 2, ... K times `scale` steps; as a cost, the expected steps.

    Each budget multiplies the probability of a miss by a predicted factor, so a larger budget never reaches a goal less
    probably. The expected steps are at most the largest budget.

    Args:
        latent_dim: D.
        budgets: Number of budgets, K.
        hidden: Width of the two hidden layers.
        scale: Steps from one budget to the next.

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
        """Expected number of budgets that are too small."""
        return self.log_missed(z, goal).exp().sum(-1)

    def reached(self, steps: Tensor) -> Tensor:
        """Whether each budget is enough for a number of steps [...], which may be infinite: bool [..., K]."""
        return steps[..., None] <= self.scale * torch.arange(1, self.budgets + 1, device=steps.device)

    def losses(self, z: Tensor, goal: Tensor, steps: Tensor) -> Tensor:
        """Cross-entropy of each pair, averaged over the budgets: z, goal [P, D], steps [P] -> [P]; steps may be inf."""
        missed = self.log_missed(z, goal)
        arrived = torch.log(-torch.expm1(missed.clamp(max=-1e-6)))
        return -torch.where(self.reached(steps), arrived, missed).mean(-1)
