"""Plain latent distance, the default terminal cost."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from reachcost.errors import ReachcostError

RAW = "raw"
"""Name of latent distance in audits and reports."""


@dataclass(frozen=True)
class LatentMSE:
    """Mean squared latent distance to the goal, the default terminal cost.

    >>> import torch
    >>> LatentMSE()(torch.ones(1, 2, 3), torch.zeros(1, 3))
    tensor([[1., 1.]])
    """

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D]."""
        if terminal.shape[-1] != goal.shape[-1] or not terminal.is_floating_point():
            raise ReachcostError(
                f"LatentMSE compares float latents of one dimension, not {terminal.dtype} [{terminal.shape[-1]}] with "
                f"[{goal.shape[-1]}]: encode both with one model, and tabulate model and costs together"
            )
        return (terminal - goal[:, None]).square().mean(-1)
