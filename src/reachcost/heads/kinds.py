"""The kinds of heads: regressions without constraints, and distances that obey the triangle inequality.

Distances are a metric and two quasimetrics, which need not be symmetric. They embed both latents with one MLP, so that
the shared goal of a pool is embedded once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.heads.base import LearnedHead, two_hidden_layers


def pair_features(z: Tensor, goal: Tensor) -> Tensor:
    """Both latents, their difference and its absolute value, concatenated: [..., D], [..., D] -> [..., 4 D]."""
    z, goal = torch.broadcast_tensors(z, goal)
    difference = z - goal
    return torch.cat([z, goal, difference, difference.abs()], dim=-1)


class PairHead(LearnedHead):
    """The paper's head: an MLP on both latents and their difference. `symmetric` averages both input orders.

    >>> import torch
    >>> head = PairHead(latent_dim=10, hidden=16)
    >>> head(torch.zeros(4, 256, 10), torch.zeros(4, 1, 10)).shape
    torch.Size([4, 256])
    """

    kind = "pair"

    def __init__(self, latent_dim: int, hidden: int = 256, scale: float = 224.0, symmetric: bool = False) -> None:
        super().__init__(latent_dim, scale)
        self.hidden, self.symmetric = hidden, symmetric
        self.mlp = two_hidden_layers(4 * latent_dim, hidden)

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The MLP's softplus on the features of the pair, or its mean over both orders."""
        if self.symmetric:
            return self.read(torch.stack([pair_features(z, goal), pair_features(goal, z)])).mean(0)
        return self.read(pair_features(z, goal))

    def read(self, features: Tensor) -> Tensor:
        """Output of the MLP for features [..., 4 D] -> [...]."""
        return functional.softplus(self.mlp(features).squeeze(-1))


class EmbeddingHead(LearnedHead):
    """An MLP on [e + f, |e - f|] of linear embeddings e and f of size `embedding`. Symmetric by construction."""

    kind = "embedding"

    def __init__(self, latent_dim: int, embedding: int = 64, hidden: int = 256, scale: float = 10.0) -> None:
        super().__init__(latent_dim, scale)
        self.embedding, self.hidden = embedding, hidden
        self.embed = nn.Linear(latent_dim, embedding)
        self.mlp = two_hidden_layers(2 * embedding, hidden)

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The MLP's softplus on sum and absolute difference of the embeddings."""
        one, other = self.embed(z), self.embed(goal)
        hidden = torch.cat([one + other, (one - other).abs()], dim=-1)
        for layer in list(self.mlp)[:-1]:
            # In place where no gradient needs the input, so that a pool stays in the processor's cache.
            frozen = isinstance(layer, nn.SiLU) and not torch.is_grad_enabled()
            hidden = functional.silu(hidden, inplace=True) if frozen else layer(hidden)
        return functional.softplus(self.mlp[-1](hidden).squeeze(-1))


class LinearHead(LearnedHead):
    """An affine function of the absolute difference |z - g|."""

    kind = "linear"

    def __init__(self, latent_dim: int, scale: float = 224.0) -> None:
        super().__init__(latent_dim, scale)
        self.weights = nn.Linear(latent_dim, 1)

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """Weigh the absolute differences."""
        return self.weights((z - goal).abs()).squeeze(-1)


class MahalanobisHead(LearnedHead):
    """A diagonal Mahalanobis distance: the root of positively weighted squared differences."""

    kind = "mahalanobis"

    def __init__(self, latent_dim: int, scale: float = 224.0) -> None:
        super().__init__(latent_dim, scale)
        self.weights = nn.Parameter(torch.full((latent_dim,), math.log(math.expm1(1 / latent_dim))))

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """Weigh the squared differences; the weights start at 1 / D each."""
        return ((z - goal).square() @ functional.softplus(self.weights) + 1e-8).sqrt()


class BudgetHead(LearnedHead):
    """The probability that a goal is reached within 1, 2, ... K times `scale` steps (the idea of RC-aux).

    The cost is the expected number of steps, at most the largest budget. Each of the K budgets multiplies the
    probability of a miss by a predicted factor, so the probability never decreases with the budget.

    >>> head = BudgetHead(latent_dim=10, budgets=4, hidden=16, scale=5.0)
    >>> z, goal = torch.randn(2, 6, 10), torch.randn(2, 1, 10)
    >>> head.within(z, goal).shape, head(z, goal).shape
    (torch.Size([2, 6, 4]), torch.Size([2, 6]))
    """

    kind = "budget"

    def __init__(self, latent_dim: int, budgets: int = 20, hidden: int = 256, scale: float = 5.0) -> None:
        super().__init__(latent_dim, scale)
        self.budgets, self.hidden = budgets, hidden
        self.mlp = two_hidden_layers(4 * latent_dim, hidden, budgets)

    def log_missed(self, z: Tensor, goal: Tensor) -> Tensor:
        """Logarithm of the probability that each budget is too small [..., K]."""
        return -functional.softplus(self.mlp(pair_features(z, goal))).cumsum(-1)

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


BUILT_IN = (PairHead, EmbeddingHead, LinearHead, MahalanobisHead, EuclideanHead, IntervalHead, ResidualHead, BudgetHead)
"""Kinds that recipes and files know without registration."""
