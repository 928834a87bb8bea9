"""Logs in the HDF5 layout of D4RL: `observations`, `actions`, `terminals`, `timeouts` at the root, `infos/*` beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.core.hdf5 import Column, Group
from reachcost.data.logs.checks import add_column
from reachcost.data.logs.episodes import Logs
from reachcost.data.logs.flat import ENDS, LENGTHS, NUMBERS, logs_of_rows
from reachcost.data.logs.hdf5 import ColumnOnDisk, read_column
from reachcost.data.logs.names import STATES, as_column, column_name
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations

IGNORED = ("next_observations", "next_states")
"""What the next row says again."""


def is_d4rl(file: Group) -> bool:
    """Whether a file has observations at its root."""
    return any(name in file for name in STATES)


def read_d4rl(path: Path, file: Group, observe: Callable[[np.ndarray], Observations] | None) -> Logs:
    """Read columns, but for frames, which stay on disk."""
    where = f"{path} (D4RL)"
    if "actions" not in file and "action" not in file:
        raise ReachcostError(f"{where} has no `actions` beside its observations: write both, one row per step")
    bookkeeping: dict[str, np.ndarray] = {}
    columns: dict[str, Any] = {}
    for stored, column in _columns(file):
        if stored in (*LENGTHS, *ENDS, *NUMBERS):
            bookkeeping[stored] = read_column(column)
            continue
        name = column_name(stored, column)
        values = ColumnOnDisk(path, column) if name == "pixels" else as_column(name, read_column(column))
        add_column(where, columns, name, values, stored)
    return logs_of_rows(where, columns, bookkeeping, observe)


def _columns(file: Group) -> Iterator[tuple[str, Column]]:
    """Columns at the root, then those of `infos` as `info.name`; what has no rows is a remark."""
    infos = file.get("infos")
    inside = infos.items() if isinstance(infos, Group) else ()
    for name, found in (*file.items(), *((f"info.{name}", found) for name, found in inside)):
        if isinstance(found, Column) and found.ndim and name not in IGNORED:
            yield name, found
