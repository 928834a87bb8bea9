"""Whether logs cover the places a planner has to judge."""

from __future__ import annotations

import torch
from torch import Tensor

from reachcost.errors import ReachcostError

SAMPLE = 20_000
"""Logged latents that are compared with."""
QUANTILE = 0.99


@torch.no_grad()
def uncovered(queries: Tensor, logged: Tensor, seed: int = 0) -> Tensor:
    """Which latents [Q, D] are farther from logged ones [R, D] than 99 % of these are from each other: bool [Q].

    >>> logged = torch.rand(500, 2, generator=torch.Generator().manual_seed(0))
    >>> uncovered(torch.tensor([[0.5, 0.5], [3.0, 3.0]]), logged).tolist()
    [False, True]
    """
    if len(logged) < 2:
        raise ReachcostError(f"{len(logged)} logged latents cover nothing: give the logs that heads learn from")
    order = torch.randperm(len(logged), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    sample = logged[order]
    among = sample[: max(2, len(sample) // 10)]
    # The nearest one of a sampled latent is itself.
    usual = torch.cdist(among, sample).topk(2, largest=False).values[:, 1]
    return torch.cdist(queries, sample).amin(1) > usual.quantile(QUANTILE)
