"""The pairwise head of the paper: an MLP on [z, g, z - g, |z - g|] that predicts the gap in steps."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.errors import ReachcostError


class PairHead(nn.Module):
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

    def __init__(self, latent_dim: int, hidden: int = 256, scale: float = 224.0, symmetric: bool = False) -> None:
        super().__init__()
        self.latent_dim, self.hidden, self.scale, self.symmetric = latent_dim, hidden, scale, symmetric
        self.mlp = nn.Sequential(
            nn.Linear(4 * latent_dim, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 1),
        )
        self.record: dict[str, Any] = {}
        """How the head was trained; saved beside the weights."""

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head."""
        return {
            "latent_dim": self.latent_dim,
            "hidden": self.hidden,
            "scale": self.scale,
            "symmetric": self.symmetric,
        }

    def scaled(self, z: Tensor, goal: Tensor) -> Tensor:
        """Predict gap / scale, the quantity the loss sees."""
        for name, latent in (("z", z), ("goal", goal)):
            if latent.shape[-1] != self.latent_dim:
                raise ReachcostError(
                    f"this head was trained on latents of dimension {self.latent_dim} but {name} has "
                    f"{latent.shape[-1]}: use a head fitted on latents of this world model"
                )
        z, goal = torch.broadcast_tensors(z, goal)
        difference = z - goal
        features = torch.cat([z, goal, difference, difference.abs()], dim=-1)
        if self.symmetric:
            swapped = torch.cat([goal, z, -difference, difference.abs()], dim=-1)
            features = torch.stack([features, swapped])
        steps = functional.softplus(self.mlp(features).squeeze(-1))
        return steps.mean(0) if self.symmetric else steps

    def forward(self, z: Tensor, goal: Tensor) -> Tensor:
        """Predict the gap in steps."""
        return self.scale * self.scaled(z, goal)

    def symmetrised(self) -> PairHead:
        """The same weights with both input orders averaged."""
        head = copy.deepcopy(self)
        head.symmetric = True
        return head
