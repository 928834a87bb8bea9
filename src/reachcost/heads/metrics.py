"""Heads that obey the triangle inequality: a metric and two quasimetrics."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

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


class IntervalHead(LearnedHead):
    """A quasimetric of two latents: not symmetric, never negative, 0 from a latent to itself, no detour shorter.

    Args:
        latent_dim: D.
        components: C, distances that are combined into one: a learned mean of their maximum and their mean.
        intervals: M, intervals of a component.
        hidden: Width of the two hidden layers that embed a latent.
        scale: Steps per unit of the network's output; conditions the loss.

    Shape:
        z [..., D] and goal [..., D], broadcast against each other, to steps [...]. A shared goal is embedded once.

    >>> head, (a, b, c) = IntervalHead(latent_dim=10, hidden=16), torch.randn(3, 10)
    >>> bool(head(a, c) <= head(a, b) + head(b, c)), head(a, a).item()
    (True, 0.0)
    >>> head(torch.zeros(4, 256, 10), torch.zeros(4, 1, 10)).shape
    torch.Size([4, 256])
    """

    kind = "iqe"

    def __init__(
        self, latent_dim: int, components: int = 16, intervals: int = 8, hidden: int = 128, scale: float = 10.0
    ) -> None:
        super().__init__(latent_dim, scale)
        self.components, self.intervals, self.hidden = components, intervals, hidden
        self.embed = two_hidden_layers(latent_dim, hidden, components * intervals)
        self.leaning = nn.Parameter(torch.zeros(()))

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head."""
        given = {"components": self.components, "intervals": self.intervals, "hidden": self.hidden}
        return {**super().config, **given}

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The components' maximum and mean, weighed by a learned share."""
        shape = self.components, self.intervals
        lengths = union_length(self.embed(z).unflatten(-1, shape), self.embed(goal).unflatten(-1, shape))
        return torch.lerp(lengths.mean(-1), lengths.amax(-1), self.leaning.sigmoid())


def union_length(start: Tensor, end: Tensor) -> Tensor:
    """Length of the union of the intervals from start [..., M] up to end [..., M], empty where end is lower -> [...].

    >>> union_length(torch.tensor([0.0, 1.0, 5.0]), torch.tensor([2.0, 3.0, 4.0])).item()
    3.0
    """
    end = torch.maximum(start, end)
    start, order = start.expand_as(end).sort(dim=-1)
    reached = end.gather(-1, order).cummax(dim=-1).values
    # From left to right, an interval adds what lies beyond all that came before it.
    covered = torch.cat([start[..., :1], torch.maximum(start[..., 1:], reached[..., :-1])], dim=-1)
    return (reached - covered).sum(-1)


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
