"""SIGReg, the regulariser of LeWM, against the one of stable-worldmodel: forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.swm.package import import_stable_worldmodel
from reachcost.worldmodels.objectives import sigreg
from reachcost_tools.bench.entry import Entry, Side, Sides


def training_entries() -> list[Entry]:
    """One line."""
    says = "SIGReg of 4 x 128 latents, forward and backward, against that of stable-worldmodel"
    return [Entry("SIGReg, 1 thread", says, against_public_sigreg, "pass", repeats=15, against="swm")]


def against_public_sigreg(batch: int = 128) -> Sides:
    """Both project to as many random directions, which the public one draws anew."""
    import_stable_worldmodel()
    from stable_worldmodel.wm.loss import SIGReg

    latents = torch.randn(4, batch, 192, requires_grad=True)
    directions, public = functional.normalize(torch.randn(192, 512), dim=0), SIGReg(knots=17, num_proj=512)

    def ours() -> tuple[Tensor, ...]:
        return torch.autograd.grad(sigreg(latents, directions), latents)

    return Sides(Side(ours), Side(lambda: torch.autograd.grad(public(latents), latents)))
