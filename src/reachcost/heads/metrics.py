"""Heads that obey the triangle inequality: a metric and two quasimetrics, which need not be symmetric.

All of them embed both latents with one MLP, so that the shared goal of a pool is embedded once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.heads.base import LearnedHead, two_hidden_layers


class EuclideanHead(LearnedHead):
    """A metric: the Euclidean distance of embeddings of size `embedding`.

    >>> head, (z, goal) = EuclideanHead(latent_dim=10, hidden=16), torch.randn(2, 4, 10)
    >>> torch.equal(head(z, goal), head(goal, z)), head(z, z).max().item()
    (True, 0.0)
    """

    kind = "euclidean"

    def __init__(self, latent_dim: int, embedding: int = 32, hidden: int = 128, scale: float = 10.0) -> None:
        super().__init__(latent_dim, scale)
        self.embedding, self.hidden = embedding, hidden
        self.embed = two_hidden_layers(latent_dim, hidden, embedding)

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The distance of the embeddings."""
        return torch.linalg.vector_norm(self.embed(z) - self.embed(goal), dim=-1)


class IntervalHead(LearnedHead):
    """A quasimetric (interval quasimetric embedding, Wang & Isola 2022).

    A learned mean combines the maximum and the mean of `components` distances, each the length of a union of
    `intervals` intervals.

    >>> head, (a, b, c) = IntervalHead(latent_dim=10, hidden=16), torch.randn(3, 10)
    >>> bool(head(a, c) <= head(a, b) + head(b, c)), head(a, a).item()
    (True, 0.0)
    """

    kind = "iqe"

    def __init__(
        self, latent_dim: int, components: int = 16, intervals: int = 8, hidden: int = 128, scale: float = 10.0
    ) -> None:
        super().__init__(latent_dim, scale)
        self.components, self.intervals, self.hidden = components, intervals, hidden
        self.embed = two_hidden_layers(latent_dim, hidden, components * intervals)
        self.leaning = nn.Parameter(torch.zeros(()))

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The learned mean of the maximum and the mean of the components."""
        shape = self.components, self.intervals
        lengths = union_length(self.embed(z).unflatten(-1, shape), self.embed(goal).unflatten(-1, shape))
        return torch.lerp(lengths.mean(-1), lengths.amax(-1), self.leaning.sigmoid())


def union_length(start: Tensor, end: Tensor) -> Tensor:
    """Length of the union of the intervals from start to end [..., M], which are empty where end is lower -> [...]."""
    end = torch.maximum(start, end)
    start, order = start.expand_as(end).sort(dim=-1)
    reached = end.gather(-1, order).cummax(dim=-1).values
    # From left to right, each interval adds its part beyond all earlier ones.
    covered = torch.cat([start[..., :1], torch.maximum(start[..., 1:], reached[..., :-1])], dim=-1)
    return (reached - covered).sum(-1)


class ResidualHead(LearnedHead):
    """A quasimetric (metric residual network, Liu et al. 2023), cheaper than `IntervalHead`.

    It is a Euclidean distance of embeddings plus the largest decrease of other embeddings, each of size `embedding`.

    >>> head, (a, b, c) = ResidualHead(latent_dim=10, hidden=16), torch.randn(3, 10)
    >>> bool(head(a, c) <= head(a, b) + head(b, c)), head(a, a).item()
    (True, 0.0)
    """

    kind = "mrn"

    def __init__(self, latent_dim: int, embedding: int = 64, hidden: int = 128, scale: float = 10.0) -> None:
        super().__init__(latent_dim, scale)
        self.embedding, self.hidden = embedding, hidden
        self.embed = two_hidden_layers(latent_dim, hidden, 2 * embedding)

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The symmetric part plus the directed one."""
        both, residual = (self.embed(z) - self.embed(goal)).chunk(2, dim=-1)
        # The root of the mean of squares, not of their sum, which would hide the maximum.
        symmetric = torch.linalg.vector_norm(both, dim=-1) / math.sqrt(self.embedding)
        return symmetric + functional.relu(residual).amax(-1)
