"""Which candidates are the best, with ties settled the same way everywhere."""

from __future__ import annotations

import numpy as np


def lowest(costs: np.ndarray, count: int) -> np.ndarray:
    """Indices [B, count] of the lowest costs [B, S]; of equal costs the lower index comes first.

    A float32 and its index make one integer key, so ties are settled without a full stable sort.

    >>> lowest(np.array([[3.0, 1.0, 1.0, 2.0]]), 2).tolist()
    [[1, 2]]
    """
    bits = (np.ascontiguousarray(costs, np.float32) + np.float32(0)).view(np.int32).astype(np.int64)
    ordered = np.where(bits < 0, np.int64(-(2**31)) - bits, bits)  # IEEE floats in the order of their values
    keys = ordered * costs.shape[1] + np.arange(costs.shape[1])
    return np.partition(keys, count - 1, axis=1)[:, :count] % costs.shape[1]
