"""The metric residual network (MRN, Liu et al. 2023): a distance that is the same both ways, and what one way adds."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.heads.base import LearnedHead, two_hidden_layers


class ResidualHead(LearnedHead):
    """A quasimetric of two latents: a Euclidean distance of embeddings, plus the most by which others decrease.

    Both parts obey the triangle inequality and are 0 from a latent to itself, and so is their sum. Cheaper than
    `IntervalHead`, as nothing is sorted.

    Args:
        latent_dim: D.
        embedding: Numbers of each of the two embeddings of a latent, one per part.
        hidden: Width of the two hidden layers that embed a latent.
        scale: Steps per unit of the network's output; conditions the loss.

    Shape:
        z [..., D] and goal [..., D], broadcast against each other, to steps [...]. A shared goal is embedded once.

    >>> head, (a, b, c) = ResidualHead(latent_dim=10, hidden=16), torch.randn(3, 10)
    >>> bool(head(a, c) <= head(a, b) + head(b, c)), head(a, a).item()
    (True, 0.0)
    """

    kind = "mrn"

    def __init__(self, latent_dim: int, embedding: int = 64, hidden: int = 128, scale: float = 10.0) -> None:
        super().__init__(latent_dim, scale)
        self.embedding, self.hidden = embedding, hidden
        self.embed = two_hidden_layers(latent_dim, hidden, 2 * embedding)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head."""
        return {**super().config, "embedding": self.embedding, "hidden": self.hidden}

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The symmetric part plus the directed one."""
        both_ways, one_way = (self.embed(z) - self.embed(goal)).chunk(2, dim=-1)
        # The root of the mean of squares, not of their sum: the maximum would be lost beside the latter.
        symmetric = torch.linalg.vector_norm(both_ways, dim=-1) / math.sqrt(self.embedding)
        return symmetric + functional.relu(one_way).amax(-1)
