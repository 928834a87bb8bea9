"""Logs in the Lance tables of stable-worldmodel: rows of all episodes, frames as JPEG. Needs the extra `swm`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import types

from reachcost.errors import ReachcostError
from reachcost.logs.episodes import Logs
from reachcost.logs.hdf5 import RENAMED, require_columns
from reachcost.protocols import Observations

FRAMES = "pixels"


class FramesInLance:
    """A column of JPEG frames, decoded when rows are read; opens its table in every process anew."""

    dtype = np.dtype(np.uint8)
    ndim = 4

    def __init__(self, path: Path, rows: int) -> None:
        self.path, self._opened = path, (0, None)
        self.shape: tuple[int, ...] = (rows,)
        self.shape = (rows, *self[slice(0, 1)].shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        from PIL import Image

        if self._opened[0] != os.getpid():
            self._opened = os.getpid(), _table(self.path)
        wanted = np.arange(len(self))[rows]
        numbers = np.atleast_1d(wanted)
        if not len(numbers):
            return np.empty((0, *self.shape[1:]), np.uint8)
        table: Any = self._opened[1]
        blobs = table.take(numbers.tolist(), columns=[FRAMES])[FRAMES].to_pylist()
        try:
            frames = np.stack([np.asarray(Image.open(io.BytesIO(blob)).convert("RGB")) for blob in blobs])
        except (OSError, ValueError) as error:
            raise ReachcostError(f"{self.path}: a frame cannot be decoded ({error}): copy the table again") from error
        return frames if np.ndim(wanted) else frames[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": (0, None)}


def open_lance(path: Path, observe: Callable[[np.ndarray], Observations] | None = None) -> Logs:
    """Open a `.lance` table, or a directory with one in it, as `open_logs` opens HDF5."""
    tables = [path] if path.suffix == ".lance" else sorted(path.glob("*.lance"))
    if len(tables) != 1:
        raise ReachcostError(f"{path} holds {len(tables)} Lance tables: name one of them, its directory ends in .lance")
    table = _table(tables[0])
    names: list[str] = [field.name for field in table.schema]
    index = next((name for name in ("episode_idx", "ep_idx") if name in names), None)
    if index is None:
        raise ReachcostError(f"{path} has no column episode_idx: it must say where its episodes are")
    columns: dict[str, Any] = {}
    stored: list[str] = [field.name for field in table.schema if not types.is_binary(field.type)]  # images
    small = table.to_table(columns=stored)
    for name in stored:
        values = small[name].combine_chunks()
        size = getattr(values.type, "list_size", None)
        numbers = (values.flatten() if size else values).to_numpy(zero_copy_only=False)
        columns[RENAMED.get(name, name)] = numbers.reshape(-1, size) if size else numbers
    episode = columns["episode_idx"].ravel()
    if (np.diff(episode) < 0).any():
        raise ReachcostError(f"{path}: episode_idx goes back, so episodes are not in one piece: write the table again")
    offsets = np.flatnonzero(np.diff(episode, prepend=episode[:1] - 1))
    lengths = np.diff(offsets, append=len(episode))
    if FRAMES in names:
        columns[FRAMES] = FramesInLance(tables[0], len(episode))
    require_columns(path, columns, lengths, offsets)
    return Logs(columns, lengths, None if FRAMES in columns else observe)


def _table(path: Path) -> Any:
    try:
        import lance
    except ImportError as error:
        raise ReachcostError(f"{path} is a Lance table: install what reads it, pip install 'reachcost[swm]'") from error
    try:
        return lance.dataset(str(path))
    except (OSError, ValueError) as error:
        raise ReachcostError(f"{path} is not a whole Lance table: copy or write it again") from error
