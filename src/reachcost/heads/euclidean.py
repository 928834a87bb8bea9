"""The Euclidean distance of embeddings: a metric, and the value function of HILP."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reachcost.heads.base import LearnedHead, two_hidden_layers


class EuclideanHead(LearnedHead):
    """A metric of two latents: ||p - q|| of their embeddings p and q.

    Args:
        latent_dim: D.
        embedding: Numbers each latent is mapped to.
        hidden: Width of the two hidden layers that embed a latent.
        scale: Steps per unit of the network's output; conditions the loss.

    Shape:
        z [..., D] and goal [..., D], broadcast against each other, to steps [...]. A shared goal is embedded once.

    >>> head, (z, goal) = EuclideanHead(latent_dim=10, hidden=16), torch.randn(2, 4, 10)
    >>> torch.equal(head(z, goal), head(goal, z)), head(z, z).max().item()
    (True, 0.0)
    """

    kind = "euclidean"

    def __init__(self, latent_dim: int, embedding: int = 32, hidden: int = 128, scale: float = 10.0) -> None:
        super().__init__(latent_dim, scale)
        self.embedding, self.hidden = embedding, hidden
        self.embed = two_hidden_layers(latent_dim, hidden, embedding)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head."""
        return {**super().config, "embedding": self.embedding, "hidden": self.hidden}

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The distance of the embeddings."""
        return torch.linalg.vector_norm(self.embed(z) - self.embed(goal), dim=-1)
