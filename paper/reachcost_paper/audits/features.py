"""Which inputs the paper's pair head uses: some of its features [z, g, z - g, |z - g|], and swapped inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reachcost.errors import ReachcostError
from reachcost.heads.regression import PairHead

BLOCKS = ("z", "goal", "difference", "absolute")
"""The feature blocks of a pair head, in their order."""


@dataclass(frozen=True)
class FeaturesOnly:
    """A terminal cost: a fitted pair head with some of its feature blocks set to zero.

    >>> cost = FeaturesOnly(PairHead(3, hidden=4), ("absolute",))
    >>> cost(torch.randn(2, 5, 3), torch.randn(2, 3)).shape
    torch.Size([2, 5])
    """

    head: PairHead
    kept: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.head.symmetric or set(self.kept) - set(BLOCKS):
            raise ReachcostError(
                f"cannot keep {', '.join(self.kept)} of this head: give a pair head of one input order, and some of "
                f"{', '.join(BLOCKS)}"
            )

    @torch.no_grad()
    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        kept = torch.tensor([[name in self.kept] for name in BLOCKS])
        features = self.head.features(terminal, goal[:, None]).unflatten(-1, (len(BLOCKS), -1)) * kept
        return self.head.scale * self.head.read(features.flatten(-2))


@dataclass(frozen=True)
class SwapConsistency:
    """How much the output of a head depends on the order of its inputs.

    Attributes:
        difference: Mean absolute difference between both orders in each pool, in the unit of the head [B].
        magnitude: Mean of the head's output in each pool [B].
    """

    difference: Tensor
    magnitude: Tensor


@torch.no_grad()
def swap_consistency(head: PairHead, terminal: Tensor, goal: Tensor) -> SwapConsistency:
    """Compare head(terminal, goal) with head(goal, terminal): [B, S, D], [B, D].

    >>> head = PairHead(3, hidden=4, symmetric=True)
    >>> bool((swap_consistency(head, torch.randn(2, 5, 3), torch.randn(2, 3)).difference < 1e-4).all())
    True
    """
    forward, backward = head(terminal, goal[:, None]), head(goal[:, None], terminal)
    return SwapConsistency((forward - backward).abs().mean(1), forward.mean(1))
