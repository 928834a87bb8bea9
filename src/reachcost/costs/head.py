"""The replacement cost: a head in place of latent distance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.base.parallel import each, piece_of
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
        """Score terminal [B, S, D] against goal [B, D] where they are; the head comes along.

        On a processor each pool by itself, in pieces of equal shape: no pool depends on the others.
        """
        if isinstance(self.head, nn.Module) and any(part.device != terminal.device for part in self.head.parameters()):
            self.head.to(terminal.device)
        if terminal.device.type != "cpu":
            return self.head(terminal, goal[:, None])
        count = terminal.shape[1]
        size = piece_of(count)
        filled = functional.pad(terminal, (0, 0, 0, -count % size)).unflatten(1, (-1, size))
        pieces = zip(filled.flatten(0, 1), goal.repeat_interleave(filled.shape[1], 0)[:, None], strict=True)
        costs = each(lambda piece: self.head(*piece), pieces)
        return torch.stack(costs).view(len(terminal), -1)[:, :count]
