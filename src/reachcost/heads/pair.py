"""The pairwise head of the paper: an MLP on [z, g, z - g, |z - g|] that predicts the gap in steps."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.heads.base import LearnedHead, two_hidden_layers


class PairHead(LearnedHead):
    """Predicts how many steps separate two latents.

    Args:
        latent_dim: D.
        hidden: Width of the two hidden layers.
        scale: Steps per unit of the network's output; conditions the regression loss.
        symmetric: Average both input orders, so that `head(z, g) == head(g, z)`.

    Shape:
        z [..., D] and goal [..., D], broadcast against each other, to steps [...].

    >>> head = PairHead(latent_dim=10, hidden=16)
    >>> head(torch.zeros(4, 256, 10), torch.zeros(4, 1, 10)).shape
    torch.Size([4, 256])
    """

    kind = "pair"

    def __init__(self, latent_dim: int, hidden: int = 256, scale: float = 224.0, symmetric: bool = False) -> None:
        super().__init__(latent_dim, scale)
        self.hidden, self.symmetric = hidden, symmetric
        self.mlp = two_hidden_layers(4 * latent_dim, hidden)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head."""
        return {**super().config, "hidden": self.hidden, "symmetric": self.symmetric}

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The MLP's softplus on the features of the pair, or its mean over both orders."""
        if self.symmetric:
            return self.read(torch.stack([self.features(z, goal), self.features(goal, z)])).mean(0)
        return self.read(self.features(z, goal))

    def features(self, z: Tensor, goal: Tensor) -> Tensor:
        """What the MLP sees of a pair: z, goal, difference and absolute difference, one after the other [..., 4 D]."""
        z, goal = torch.broadcast_tensors(z, goal)
        difference = z - goal
        return torch.cat([z, goal, difference, difference.abs()], dim=-1)

    def read(self, features: Tensor) -> Tensor:
        """What the MLP makes of features [..., 4 D] -> [...]."""
        return functional.softplus(self.mlp(features).squeeze(-1))

    def symmetrised(self) -> PairHead:
        """The same weights with both input orders averaged."""
        head = copy.deepcopy(self)
        head.symmetric = True
        return head
