"""One round of a search, for those who want to watch a planner: looking changes nothing of what it finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Round(NamedTuple):
    """What a planner of B action sequences sampled and kept in one round."""

    pool: Tensor
    """Candidates [B, S, H, A]."""
    costs: Tensor
    """Their costs [B, S]."""
    elites: Tensor
    """Which of them were kept, by index, best first [B, K]."""
    plan: Tensor
    """What would be executed if this round were the last [B, H, A]."""


Watch = Callable[[Round], None]
"""Is called with every round; what it is given is to be looked at, not to be changed."""
