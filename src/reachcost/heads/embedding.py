"""Our head: both latents through one narrow linear map, then an MLP on what does not depend on their order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.heads.base import LearnedHead, two_hidden_layers


class EmbeddingHead(LearnedHead):
    """Predicts how many steps separate two latents, from [e + f, |e - f|] of their embeddings e and f.

    Symmetric by construction. The map to a few numbers leaves the MLP the geometry and little else to fit, with fewer
    operations than a symmetric `PairHead`.

    Args:
        latent_dim: D.
        embedding: Numbers each latent is mapped to.
        hidden: Width of the two hidden layers.
        scale: Steps per unit of the network's output; conditions the regression loss.

    Shape:
        z [..., D] and goal [..., D], broadcast against each other, to steps [...].

    >>> head = EmbeddingHead(latent_dim=10, hidden=16)
    >>> z, goal = torch.randn(4, 256, 10), torch.randn(4, 1, 10)
    >>> torch.equal(head(z, goal), head(goal, z))
    True
    """

    kind = "embedding"

    def __init__(self, latent_dim: int, embedding: int = 64, hidden: int = 256, scale: float = 10.0) -> None:
        super().__init__(latent_dim, scale)
        self.embedding, self.hidden = embedding, hidden
        self.embed = nn.Linear(latent_dim, embedding)
        self.mlp = two_hidden_layers(2 * embedding, hidden)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head."""
        return {**super().config, "embedding": self.embedding, "hidden": self.hidden}

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The MLP's softplus on sum and absolute difference of the embeddings."""
        one, other = self.embed(z), self.embed(goal)
        hidden = torch.cat([one + other, (one - other).abs()], dim=-1)
        for layer in list(self.mlp)[:-1]:
            # In place where no gradient needs the input: a pool then stays in the processor's cache.
            frozen = isinstance(layer, nn.SiLU) and not torch.is_grad_enabled()
            hidden = functional.silu(hidden, inplace=True) if frozen else layer(hidden)
        return functional.softplus(self.mlp[-1](hidden).squeeze(-1))
