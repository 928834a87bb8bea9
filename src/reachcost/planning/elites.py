"""Which candidates are the best, with ties settled the same way everywhere."""

from __future__ import annotations

import torch
from torch import Tensor


def lowest(costs: Tensor, count: int) -> Tensor:
    """Indices [B, count] of the lowest costs [B, S], lowest first; of equal costs the lower index comes first.

    A float32 and its index make one integer key: no device settles ties between different keys.

    >>> lowest(torch.tensor([[3.0, 1.0, 1.0, 2.0]]), 3).tolist()
    [[1, 2, 3]]
    """
    bits = (costs.float() + 0.0).view(torch.int32).long()
    ordered = torch.where(bits < 0, -(2**31) - bits, bits)  # IEEE floats in the order of their values
    size = costs.shape[1]
    keys = ordered * size + torch.arange(size, device=costs.device)
    return keys.topk(count, largest=False).values % size
