"""Terminal costs through a linear probe of the state, and a rescaled latent distance: what the repair is compared with.

Shape of all of them: terminal [B, S, D], goal [B, D] -> costs [B, S].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from reachcost.core.devices import Copies
from reachcost.data.probe import LinearProbe
from reachcost.errors import ReachcostError
from reachcost.tasks.contract import Distance


@dataclass(frozen=True)
class DecodedDistance:
    """Straight distance between the decoded states, or another one if it is given (a task's oracle distance, say)."""

    probe: LinearProbe
    distance: Distance | None = None

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        ends, goals = self.probe(terminal), self.probe(goal)[:, None].expand(*terminal.shape[:2], -1)
        if self.distance is None:
            return (ends - goals).norm(dim=-1)
        return torch.from_numpy(self.distance(ends.cpu().numpy(), goals.cpu().numpy())).float().to(terminal.device)


@dataclass(frozen=True)
class SubspaceCost:
    """Squared latent distance within the probe's rowspace, or within the rest of the latent space.

    With the probe W z + b the rowspace projector is P = W^T (W W^T)^+ W; the residual one is I - P.

    >>> probe = LinearProbe(torch.tensor([[1.0], [0.0]]), torch.zeros(1))  # reads the first of two numbers
    >>> SubspaceCost(probe)(torch.tensor([[[3.0, 4.0]]]), torch.zeros(1, 2))
    tensor([[9.]])
    >>> SubspaceCost(probe, residual=True)(torch.tensor([[[3.0, 4.0]]]), torch.zeros(1, 2))
    tensor([[16.]])
    """

    probe: LinearProbe
    residual: bool = False

    @cached_property
    def projector(self) -> Tensor:
        """The matrix [D, D] that keeps the subspace."""
        weight = self.probe.weight.double()
        rowspace = weight @ torch.linalg.pinv(weight)
        return (torch.eye(len(weight), dtype=weight.dtype) - rowspace if self.residual else rowspace).float()

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        return ((terminal - goal[:, None]) @ self._copies.on(terminal.device)).square().sum(-1)

    @cached_property
    def _copies(self) -> Copies:
        return Copies(self.projector)


@dataclass(frozen=True)
class StandardisedL2:
    """Squared latent distance with every component divided by its standard deviation in the logs."""

    std: Tensor

    def __post_init__(self) -> None:
        if self.std.ndim != 1 or not (self.std > 0).all():
            raise ReachcostError("standardised L2: give one positive standard deviation per latent component")

    @classmethod
    def of(cls, latents: Tensor) -> StandardisedL2:
        """Measure the standard deviations on latents [N, D]."""
        return cls(latents.std(0))

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        return ((terminal - goal[:, None]) / self._copies.on(terminal.device)).square().mean(-1)

    @cached_property
    def _copies(self) -> Copies:
        return Copies(self.std)
