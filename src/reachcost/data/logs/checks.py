"""What every reader of logs asks of the columns it found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.errors import ReachcostError

VECTORS = ("state", "action", "proprio")
"""Columns whose rows are vectors of numbers."""


def add_column(where: str, columns: dict[str, Any], name: str, values: Any, stored: str) -> None:
    """Add a column by its name; refuse a name that is there already, which would drop one of the two."""
    if name in columns:
        raise ReachcostError(f"{where} has {name!r} twice, also as {stored!r}: leave out one")
    columns[name] = values


def require_width(where: str | Path, columns: Mapping[str, Any]) -> None:
    """Refuse vectors and frames without a single value."""
    for name in (*VECTORS, "pixels"):
        if name in columns and 0 in np.shape(columns[name])[1:]:
            shape = np.shape(columns[name])
            raise ReachcostError(f"{where}: {name} is {shape}, so its rows are empty: write at least one value per row")


def require_columns(where: str | Path, columns: Mapping[str, Any], lengths: np.ndarray, offsets: np.ndarray) -> None:
    """Refuse columns of the wrong kind or shape, and values that are not finite."""
    if "state" not in columns and "pixels" not in columns:
        raise ReachcostError(f"{where} has neither `state` (or `pos_agent`) nor `pixels`, only {sorted(columns)}")
    require_width(where, columns)
    for name in VECTORS:
        if name in columns and (columns[name].ndim != 2 or columns[name].dtype.kind not in "fiu"):
            kind, shape = columns[name].dtype, columns[name].shape
            raise ReachcostError(f"{where}: {name} is {kind} {shape}: it must be numbers [rows, size]")
    if "pixels" in columns:
        kind, shape = columns["pixels"].dtype, columns["pixels"].shape
        if len(shape) != 4 or kind != np.uint8 or shape[-1] not in (1, 3):
            raise ReachcostError(
                f"{where}: pixels are {kind} {shape}: they must be uint8 [rows, height, width, 1 or 3]"
            )
    if "episode_idx" in columns and columns["episode_idx"].dtype.kind not in "biuf":
        raise ReachcostError(f"{where}: episode_idx holds {columns['episode_idx'].dtype}: give numbers")
    if "episode_idx" in columns and (np.diff(columns["episode_idx"].ravel())[offsets[1:] - 1] == 0).any():
        raise ReachcostError(f"{where}: episode_idx does not change where ep_offset begins an episode: one is wrong")
    inside = np.ones(int(lengths.sum()), bool)
    inside[offsets + lengths - 1] = False  # the last action of an episode leads nowhere and may be anything
    for name in VECTORS:
        if name in columns:
            bad = ~np.isfinite(columns[name]).all(1) & (inside if name == "action" else True)
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                episode = int(np.searchsorted(offsets, row, side="right")) - 1
                raise ReachcostError(
                    f"{where}: {name} is not finite in {int(bad.sum())} rows, first in step {row - offsets[episode]} "
                    f"of episode {episode}: drop those episodes before using the file"
                )


def require_steps(where: str, lengths: np.ndarray) -> None:
    """Refuse episodes in which nothing happens."""
    if not len(lengths):
        raise ReachcostError(f"{where}: there are no episodes, log some first")
    if (lengths < 2).any():
        episode = int(np.flatnonzero(lengths < 2)[0])
        raise ReachcostError(
            f"{where}: episode {episode} has {lengths[episode]} row{'s' if lengths[episode] != 1 else ''}, "
            f"{int((lengths < 2).sum())} of {len(lengths)} have fewer than two: leave them out, nothing happens in them"
        )
