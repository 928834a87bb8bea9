"""Logs in the Lance tables of stable-worldmodel, with frames as JPEG. Needs the extra `swm`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import types

from reachcost.data.logs_columns import Columns, episode_lengths, require_columns
from reachcost.data.logs_files import RENAMED
from reachcost.data.observations import LazyFrames, decode_frame
from reachcost.errors import ReachcostError

FRAMES = "pixels"
NEEDED = ("state", "pos_agent", "action", "proprio", "episode_idx", "ep_idx", "step_idx")
"""Columns that must hold numbers."""


class FramesInLance(LazyFrames):
    """A column of encoded frames, decoded when rows are read."""

    def __init__(self, path: Path, rows: int) -> None:
        self.path: Path = path
        self._table: Any = None
        self.shape = (rows, *self.read(np.array([0]))[0].shape)

    def read(self, numbers: np.ndarray) -> list[np.ndarray]:
        """The frames of some rows [N]."""
        self._table = self._table or _open(self.path)
        blobs = _call(self.path, lambda: self._table.take(numbers.tolist(), columns=[FRAMES])[FRAMES].to_pylist())
        return [decode_frame(self.path, blob) for blob in blobs]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}


def read_lance(path: Path) -> Columns:
    """Read a `.lance` table, or the one in a directory; frames stay on disk."""
    tables = [path] if path.suffix == ".lance" else sorted(path.glob("*.lance"))
    if len(tables) != 1:
        remedy = "name one of them" if tables else "name a Lance table, which ends in .lance, or a Minari dataset"
        raise ReachcostError(f"{path} holds {len(tables)} Lance tables: {remedy}")
    table = _open(tables[0])
    kinds: dict[str, Any] = _call(path, lambda: {field.name: field.type for field in table.schema})
    images = {name for name, kind in kinds.items() if types.is_binary(kind) or types.is_large_binary(kind)}
    tabular = sorted(kinds.keys() - images)
    small = _call(path, lambda: table.to_table(columns=tabular))
    if tabular and not len(small):
        raise ReachcostError(f"{path} has no rows: collect episodes first")
    columns: dict[str, Any] = {}
    for name in tabular:
        if RENAMED.get(name) not in kinds:  # of two names of one column, that of logs
            values = _call(path, lambda name=name: _values(path, name, small[name]))
            if values is not None:
                columns[RENAMED.get(name, name)] = values
    lengths = _lengths(path, columns)
    if FRAMES in images:
        columns[FRAMES] = FramesInLance(tables[0], int(lengths.sum()))
    require_columns(str(path), columns, lengths)
    return columns, lengths


def _values(path: Path, name: str, column: Any) -> np.ndarray | None:
    """The numbers or text of a column [R] or, where rows are lists of one length, [R, size]; None for other types."""
    values = column.combine_chunks()
    if values.null_count:
        raise ReachcostError(f"{path}: column {name!r} has {values.null_count} rows without value: write it again")
    if types.is_string(values.type) or types.is_large_string(values.type):
        return np.array(values.to_pylist(), dtype=str)
    size = getattr(values.type, "list_size", None)
    numbers = (values.flatten() if size else values).to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "biuf":
        if name not in NEEDED:
            return None
        raise ReachcostError(f"{path}: column {name!r} holds {values.type}: write numbers, or lists of one length")
    return numbers.reshape(-1, size) if size else numbers


def _lengths(path: Path, columns: dict[str, Any]) -> np.ndarray:
    """Rows of each episode, from the number of the episode in each row."""
    if "episode_idx" not in columns:
        raise ReachcostError(f"{path} has no column episode_idx: write the number of the episode in each row")
    rows = len(columns["episode_idx"])
    lengths = episode_lengths(str(path), {"episode_idx": columns["episode_idx"]}, rows)
    steps = columns.get("step_idx", np.arange(rows))
    if steps.size != rows or steps.dtype.kind not in "iu":
        raise ReachcostError(f"{path}: step_idx is {steps.dtype} {steps.shape}: write one whole number for each row")
    counted = steps.ravel().astype(np.int64) - np.arange(rows)  # constant within an episode
    if not np.array_equal(counted, np.repeat(counted[np.cumsum(lengths) - lengths], lengths)):
        raise ReachcostError(f"{path}: its rows are not episode after episode and step after step: write it again")
    return lengths


def _open(path: Path) -> Any:
    try:
        import lance
    except ImportError as error:
        raise ReachcostError(f"{path} is a Lance table, which needs pylance: pip install 'reachcost[swm]'") from error
    return _call(path, lambda: lance.dataset(str(path)))


def _call(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (KeyboardInterrupt, SystemExit, ReachcostError):
        raise
    except BaseException as error:  # panics of lance do not inherit from Exception
        reason = str(error).partition("\n")[0][:120]
        raise ReachcostError(f"{path} is not a complete Lance table ({reason}): copy or write it again") from error
