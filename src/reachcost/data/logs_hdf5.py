"""Opening logs of any format, and writing them as HDF5 in the layout of stable-worldmodel (`ep_len`, `ep_offset`).

Files hold states alone (pixels are rendered when read) or pixels too (read from disk by slices).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.files import new_file, replaced_file, require_file
from reachcost.core.hdf5 import Column, ColumnOnDisk, Group, NewFile, reading, writing
from reachcost.core.progress import Progress, as_progress
from reachcost.data.logs import Logs, require_logs
from reachcost.data.logs_columns import Columns, episode_lengths, require_columns
from reachcost.errors import ReachcostError, require_type
from reachcost.protocols import Observations

INDEX = ("ep_len", "ep_offset")
RENAMED = {"pos_agent": "state", "ep_idx": "episode_idx"}
"""Column names in files of stable-worldmodel, and in logs."""
FRAMES_AT_ONCE = 256
LAYOUTS = "stable-worldmodel (ep_len, ep_offset), D4RL (observations, actions), Minari (episode_0, ...) or npz"


def write_logs(
    logs: Logs,
    path: str | Path,
    *,
    render: Callable[[np.ndarray], np.ndarray] | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> None:
    """Write logs as one file, which appears at `path` when complete.

    Args:
        logs: What to write.
        path: The file.
        render: Renders states [N, ...] as uint8 frames [N, height, width, 3]; the file then also holds `pixels`.
        overwrite: Replace what is at `path`; otherwise that is an error.
        progress: True shows progress.
    """
    require_logs(logs)
    path = Path(path)
    require_file(path, overwrite)
    place = replaced_file(path) if overwrite else new_file(path)
    try:
        with place as partial, writing(partial) as file:
            _write(logs, file, render, as_progress(progress))
    except OSError as error:
        reason = error.strerror or error
        raise ReachcostError(f"cannot write {path} ({reason}): make room there, or choose another place") from error


def _write(logs: Logs, file: NewFile, render: Callable[[np.ndarray], np.ndarray] | None, progress: Progress) -> None:
    columns = {name: column for name, column in logs.columns.items() if name != "pixels"}
    columns |= {"ep_len": logs.lengths.astype(np.int32), "ep_offset": logs.offsets.astype(np.int64)}
    for name, column in columns.items():
        values = column.astype(str) if column.dtype.kind == "S" else column
        file.add(name, values, rows=len(column), sha256=_checksum(name, column))
    if render is None and "pixels" not in logs.columns:
        return

    def frames(rows: slice) -> np.ndarray:
        return logs.columns["pixels"][rows] if render is None else render(logs.columns["state"][rows])

    write = file.add_frames("pixels", logs.rows, frames(slice(0, 1)).shape[1:])
    for start in progress.track(range(0, logs.rows, FRAMES_AT_ONCE), f"x {FRAMES_AT_ONCE} frames"):
        rows = slice(start, min(start + FRAMES_AT_ONCE, logs.rows))
        write(rows, frames(rows))


def _checksum(name: str, values: np.ndarray) -> str:
    """sha256 over a column and its name; text counts as UTF-8, whatever the width of its dtype."""
    if values.dtype.kind in "US":
        values = np.frombuffer("\0".join(values.astype(str).ravel().tolist()).encode(), np.uint8)
    return fingerprint_arrays(np.array([name]), values)


def open_logs(path: str | Path, observe: Callable[[np.ndarray], Observations] | None = None) -> Logs:
    """Open logs in any layout that `docs/data.md` lists; the content determines the layout.

    HDF5 or a Lance table of stable-worldmodel (the latter needs `pip install 'reachcost[swm]'`), HDF5 in the layout of
    D4RL, a Minari dataset, or an `.npz` file. Columns are renamed (`observations`: `state`). Small columns are read and
    checked; frames stay on disk, except those of `.npz`. Opening a file runs no code in it.

    Args:
        path: The file, or the directory of the table or dataset.
        observe: Renders missing columns from states, for files of states alone; a task's `observe`.
    """
    require_type(path, str | Path, "path", "give a file, or the directory of a table or dataset")
    columns, lengths = _read(Path(path))
    return Logs(columns, lengths, None if "pixels" in columns else observe)


def _read(path: Path) -> Columns:
    from reachcost.data import logs_formats as formats

    if path.is_dir():
        inside = formats.minari_file(path)
        if inside is None:
            from reachcost.data.logs_lance import read_lance

            return read_lance(path)
        path = inside
    if not path.is_file():
        raise ReachcostError(f"there are no logs at {path}: check the name, or call reachcost logs generate")
    try:
        with path.open("rb") as start:
            is_zip = start.read(4) == b"PK\x03\x04"
    except OSError as error:
        raise ReachcostError(f"{path} cannot be read ({error.strerror}): change its permissions") from error
    if is_zip:
        return formats.read_npz(path)
    with reading(path, f"give one of {LAYOUTS}") as file:
        if any(name in file for name in INDEX):
            return _read_stable_worldmodel(path, file)
        if formats.is_minari(file):
            return formats.read_minari(path, file)
        if formats.is_d4rl(file):
            return formats.read_d4rl(path, file)
        raise ReachcostError(f"{path} is HDF5 with {', '.join(file) or 'nothing'}: give one of {LAYOUTS}")


def _read_stable_worldmodel(path: Path, file: Group) -> Columns:
    missing = [name for name in INDEX if name not in file]
    if missing:
        raise ReachcostError(f"{path} has no {' and no '.join(missing)}: write ep_len and ep_offset")
    stored = dict(file.items())
    found: dict[str, Any] = {}
    for name, column in sorted(stored.items()):
        if not isinstance(column, Column) or column.ndim == 0:
            raise ReachcostError(f"{path}: {name!r} is not a column: all columns are at the root of the file")
        if RENAMED.get(name) not in stored:
            frames = name == "pixels"
            found[RENAMED.get(name, name)] = ColumnOnDisk(path, column) if frames else read_column(column)
    lengths, offsets = (found.pop(name) for name in INDEX)
    lengths = episode_lengths(str(path), {"ep_len": lengths}, len(next(iter(found.values()), ())))
    if (lengths < 1).any() or not np.array_equal(offsets, np.cumsum(lengths) - lengths):
        raise ReachcostError(
            f"{path}: ep_len and ep_offset contradict each other: write episodes of one row or more without gaps"
        )
    require_columns(str(path), found, lengths)
    return found, lengths


def read_column(column: Column) -> np.ndarray:
    """All rows of a column; raises an error if `write_logs` wrote other ones."""
    # Types are checked first: reading an unknown type may crash.
    if not column.is_text and (column.dtype.hasobject or column.dtype.kind not in "biufcSV"):
        raise ReachcostError(f"{column.where}: {column.name} holds {column.dtype}: write numbers or text")
    values = column.text() if column.is_text else column[:]
    known = column.attribute("sha256")
    if known is not None and _checksum(column.name, values[: column.attribute("rows")]) != known:
        raise ReachcostError(
            f"{column.where}: {column.name} is not what was written, by its checksum: copy or generate the file "
            "again, or remove the attribute `sha256` of a column that you changed yourself"
        )
    return values
