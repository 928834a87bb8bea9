"""Logged episodes: every column holds the rows of all episodes, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.evaluation import fingerprint_arrays


@dataclass(frozen=True)
class Logs:
    """E episodes in R rows.

    Attributes:
        columns: Column name to array [R, ...]; `state` is the task state of each row.
        lengths: Rows of each episode [E]; they add up to R.
    """

    columns: Mapping[str, np.ndarray]
    lengths: np.ndarray

    def __post_init__(self) -> None:
        rows = int(self.lengths.sum())
        for name, column in self.columns.items():
            if len(column) != rows:
                raise ReachcostError(
                    f"log column {name!r} has {len(column)} rows but the episode lengths add up to {rows}: "
                    "give every column one row per step"
                )

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def offsets(self) -> np.ndarray:
        """First row of each episode [E]."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over episode lengths and columns."""
        return fingerprint_arrays(self.lengths, *(self.columns[name] for name in sorted(self.columns)))
