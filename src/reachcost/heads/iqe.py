"""The interval quasimetric embedding (IQE, Wang & Isola 2022): a directed distance with an exact triangle inequality.

An MLP maps a latent to C x M numbers. In each of C components a pair (z, goal) spans M intervals, from each number of z
up to that of the goal, where the goal's is larger; a component's distance is the length of their union. Whatever the
weights, a way by a third latent spans at least those intervals, so it is never shorter than the direct one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from reachcost.heads.base import LearnedHead, two_hidden_layers


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
