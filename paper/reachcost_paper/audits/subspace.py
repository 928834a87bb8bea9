"""How much of a latent distance lies in the rowspace of a state probe, and how much a head depends on it.

With the probe W z + b, P = W^T (W W^T)^+ W projects onto its rowspace, and I - P onto the residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reachcost.costs.latent import SubspaceCost
from reachcost.data.probe import LinearProbe
from reachcost.protocols import Head


def rowspace_share(probe: LinearProbe, terminal: Tensor, goal: Tensor) -> Tensor:
    """Share of the squared difference that lies in the rowspace, for each pool: [B, S, D], [B, D] -> [B].

    >>> probe = LinearProbe(torch.tensor([[1.0], [0.0]]), torch.zeros(1))
    >>> rowspace_share(probe, torch.tensor([[[3.0, 4.0]]]), torch.zeros(1, 2))
    tensor([0.3600])
    """
    inside = SubspaceCost(probe)(terminal, goal).sum(1)
    return inside / (terminal - goal[:, None]).square().sum((1, 2))


@dataclass(frozen=True)
class Attribution:
    """Costs of the parts of a difference by one head.

    Attributes:
        full: Costs of the predicted terminal latents [B, S].
        rowspace: Costs of goal + P d, where d is terminal - goal [B, S].
        residual: Costs of goal + (I - P) d [B, S].
        gradient_share: Share of the squared gradient with respect to d that lies in the rowspace, mean over a pool [B].
    """

    full: Tensor
    rowspace: Tensor
    residual: Tensor
    gradient_share: Tensor


def attribute(head: Head, probe: LinearProbe, terminal: Tensor, goal: Tensor) -> Attribution:
    """Score full and projected differences with one head, and measure the share of its gradient in the rowspace.

    Args:
        head: The frozen head.
        probe: Probe of the state.
        terminal: Predicted terminal latents [B, S, D].
        goal: Goal latents [B, D].

    >>> from reachcost.heads import PairHead
    >>> probe = LinearProbe(torch.eye(3)[:, :1], torch.zeros(1))
    >>> attribute(PairHead(3, hidden=4), probe, torch.randn(2, 5, 3), torch.randn(2, 3)).full.shape
    torch.Size([2, 5])
    """
    rowspace, residual = SubspaceCost(probe).projector, SubspaceCost(probe, residual=True).projector
    full, inside, outside, shares = [], [], [], []
    for pool, target in zip(terminal, goal, strict=True):
        difference = (pool - target).requires_grad_()
        with torch.enable_grad():
            cost = head(target + difference, target)
            (gradient,) = torch.autograd.grad(cost.sum(), difference)
        with torch.no_grad():
            full.append(cost.detach())
            inside.append(head(target + difference @ rowspace, target))
            outside.append(head(target + difference @ residual, target))
            share = (gradient @ rowspace).square().sum(-1) / gradient.square().sum(-1).clamp_min(1e-30)
            shares.append(share.mean())
    return Attribution(*map(torch.stack, (full, inside, outside, shares)))
