"""The replacement cost: a head in place of latent distance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reachcost.base.parallel import each
from reachcost.base.types import require_type
from reachcost.protocols import Head


@dataclass(frozen=True)
class HeadCost:
    """Replacement cost: what the head predicts between terminal and goal latent."""

    head: Head

    def __post_init__(self) -> None:
        require_type(self.head, Head, "head", "give a head, rc.load_head(directory) or what rc.repair returns")

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads behind the cost."""
        return (self.head,)

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D], each pool by itself: no pool depends on the others."""
        return torch.stack(each(lambda pool: self.head(*pool), list(zip(terminal, goal[:, None], strict=True))))
