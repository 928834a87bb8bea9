"""The replacement cost: a head in place of latent distance."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from reachcost.core.devices import bring
from reachcost.core.parallel import cut, each, whole
from reachcost.core.types import require_type
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
        if isinstance(self.head, nn.Module):
            bring(self.head, terminal.device)
        if terminal.device.type != "cpu":
            return self.head(terminal, goal[:, None])
        pieces = [(piece, goal[episode, None]) for episode, piece in cut(terminal)]
        return whole(each(lambda piece: self.head(*piece), pieces), terminal)
