"""Two heads with one weight per latent component: what a learned distance can do without hidden layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.heads.base import LearnedHead


class LinearHead(LearnedHead):
    """An affine function of the absolute difference |z - g|.

    >>> LinearHead(latent_dim=10)(torch.zeros(4, 256, 10), torch.zeros(4, 1, 10)).shape
    torch.Size([4, 256])
    """

    kind = "linear"

    def __init__(self, latent_dim: int, scale: float = 224.0) -> None:
        super().__init__(latent_dim, scale)
        self.weights = nn.Linear(latent_dim, 1)

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """Weigh the absolute differences."""
        return self.weights((z - goal).abs()).squeeze(-1)


class MahalanobisHead(LearnedHead):
    """A diagonal Mahalanobis distance: the root of positively weighted squared differences.

    >>> head = MahalanobisHead(latent_dim=10)
    >>> head(torch.ones(3, 10), torch.ones(10)).max().item() < 1
    True
    """

    kind = "mahalanobis"

    def __init__(self, latent_dim: int, scale: float = 224.0) -> None:
        super().__init__(latent_dim, scale)
        self.weights = nn.Parameter(torch.full((latent_dim,), math.log(math.expm1(1 / latent_dim))))

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """Weigh the squared differences; the weights start at 1 / D each."""
        return ((z - goal).square() @ functional.softplus(self.weights) + 1e-8).sqrt()
