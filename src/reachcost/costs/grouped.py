"""Several costs over one batch, so that all of them meet the same candidates in one rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.costs.checks import require_terminal, score
from reachcost.protocols import TerminalCost


@dataclass(frozen=True)
class GroupedCost:
    """Several costs over one batch: consecutive groups of rows, `episodes[k]` (their numbers) for the k-th cost."""

    costs: Mapping[str, TerminalCost]
    episodes: Sequence[np.ndarray]

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal [B, S, D] against goal [B, D], each group of rows with its own cost."""
        require_terminal(terminal, goal)
        sizes = [len(group) for group in self.episodes]
        groups = zip(self.costs.items(), terminal.split(sizes), goal.split(sizes), self.episodes, strict=True)
        return torch.cat([score(*named, end, target, group) for named, end, target, group in groups if len(group)])
