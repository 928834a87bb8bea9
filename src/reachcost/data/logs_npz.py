"""Logs in `.npz` files: all episodes in one array per column, padded episodes, or one array per episode."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from reachcost.core.machine import require_memory
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import (
    BOOKKEEPING,
    ENDS,
    LENGTHS,
    add_column,
    as_column,
    column_name,
    join_episodes,
    only_one,
    require_rows,
)
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations

OF_EPISODE = re.compile(r"episode_?(\d{1,18})[/._](\w+)")
"""`episode_0/state`: the column of one episode."""
PADDED = {"state": 3, "pixels": 5}
"""Number of axes of columns whose first axis is the episode."""


def open_npz(path: Path, observe: Callable[[np.ndarray], Observations] | None = None) -> Logs:
    """Open an `.npz` file; all of it is read into memory, and nothing in it is run."""
    where = f"{path} (npz)"
    arrays = _load(path, where)
    if any(OF_EPISODE.fullmatch(name) for name in arrays):
        columns, lengths = join_episodes(where, _by_name(where, arrays))
        return Logs(columns, lengths, None if "pixels" in columns else observe)
    bookkeeping = {name: values for name, values in arrays.items() if name in BOOKKEEPING}
    columns: dict[str, np.ndarray] = {}
    for stored, values in arrays.items():
        if stored not in BOOKKEEPING and values.ndim:
            name = "pixels" if stored in ("observations", "obs") and values.ndim == 5 else column_name(stored, values)
            add_column(where, columns, name, values, stored)
    if any(name in columns and columns[name].ndim == axes for name, axes in PADDED.items()):
        joined, lengths = join_episodes(where, _by_axis(where, columns, bookkeeping))
        return Logs(joined, lengths, None if "pixels" in joined else observe)
    columns = {name: as_column(name, values) for name, values in columns.items()}
    lengths = require_rows(where, columns, bookkeeping)
    return Logs(columns, lengths, None if "pixels" in columns else observe)


def _load(path: Path, where: str) -> dict[str, np.ndarray]:
    """All arrays of a file."""
    try:
        with zipfile.ZipFile(path) as file:
            members = [member for member in file.infolist() if member.filename.endswith(".npy")]
            require_memory(sum(member.file_size for member in members), where, "cut it into parts")
            arrays: dict[str, np.ndarray] = {}
            for member in members:  # numpy would read only the last of several members of one name
                name = member.filename.removesuffix(".npy")
                add_column(where, arrays, name, _array(where, file, member), member.filename)
            return arrays
    except ReachcostError:
        raise
    except MemoryError as error:
        raise ReachcostError(f"{where} does not fit into memory: cut it into parts") from error
    except Exception as error:  # a damaged file can make zlib, zipfile and numpy raise anything
        reason = str(error).partition("\n")[0][:200]
        raise ReachcostError(f"{where} is not a complete file of arrays ({reason}): copy or write it again") from error


def _array(where: str, file: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """The array of a member; raises an error unless it holds numbers or text, and exactly as many as it declares."""
    with file.open(member) as stream:
        version = npy.read_magic(stream)
        shape, _, kind = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)
    if kind.hasobject:
        raise ReachcostError(
            f"{where} holds Python objects, which could run code: save plain arrays, a list of episodes with "
            "np.savez(path, **{f'episode_{number}/{name}': array})"
        )
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize > member.file_size:
        raise ValueError(f"{member.filename} holds less than {kind} {shape}")
    with file.open(member) as stream:
        array = npy.read_array(stream, allow_pickle=False)
        if stream.read(1):  # reading to the end also compares the checksum
            raise ValueError(f"{member.filename} holds more than {kind} {shape}")
    return array


def _by_name(where: str, arrays: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    episodes: dict[int, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
        found = OF_EPISODE.fullmatch(name)
        if found is None:
            raise ReachcostError(f"{where}: {name[:80]!r} belongs to no episode: leave it out")
        if found[2] not in ENDS:
            number = int(found[1])
            add_column(f"{where}: episode {number}", episodes.setdefault(number, {}), found[2], values, name)
    return [episodes[number] for number in sorted(episodes)]


def _by_axis(
    where: str, columns: Mapping[str, np.ndarray], bookkeeping: Mapping[str, np.ndarray]
) -> list[dict[str, np.ndarray]]:
    """Episodes of columns [E, T, ...], each as long as its length says, or as all are."""
    main = next(name for name, axes in PADDED.items() if name in columns and columns[name].ndim == axes)
    count, longest = columns[main].shape[:2]
    known = only_one(where, bookkeeping, LENGTHS)
    given = bookkeeping[known] if known else np.full(count, longest)
    if given.shape != (count,) or given.dtype.kind not in "iu" or (given > longest).any() or (given < 0).any():
        raise ReachcostError(
            f"{where}: {main} is {columns[main].shape}, {count} episodes of up to {longest} rows, but lengths are "
            f"{given.dtype} {given.shape}, up to {given.max(initial=0)}: give the rows of each episode"
        )
    for name, values in columns.items():
        if values.ndim < 2 or len(values) != count or values.shape[1] not in (longest, longest - 1):
            raise ReachcostError(f"{where}: {name} is {values.shape}: give it {count} episodes of {longest} rows")
    return [
        {name: values[number, : min(length, values.shape[1])] for name, values in columns.items()}
        for number, length in enumerate(given.tolist())
    ]
