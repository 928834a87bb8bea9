"""Opening logs of any format, and writing them as HDF5 in the layout of stable-worldmodel (`ep_len`, `ep_offset`).

Files hold states alone (pixels are rendered when read) or pixels too (read from disk by slices).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.files import new_file
from reachcost.core.hdf5 import Column, Group, reading
from reachcost.core.machine import defer_interrupts
from reachcost.core.progress import Progress, as_progress
from reachcost.data.logs import Logs, require_logs
from reachcost.data.logs_columns import STATES, Columns, episode_lengths, require_columns
from reachcost.errors import ReachcostError, require_type
from reachcost.protocols import Observations

INDEX = ("ep_len", "ep_offset")
RENAMED = {"pos_agent": "state", "ep_idx": "episode_idx"}
"""Column names in files of stable-worldmodel, and in logs."""
FORMAT = ("v110", "v110")
"""Oldest version of HDF5 with checksums of all metadata; HDF5 1.10 and later read it."""
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
    try:
        with new_file(path, overwrite) as partial:
            _write(logs, partial, render, as_progress(progress))
    except OSError as error:
        reason = error.strerror or error
        raise ReachcostError(f"cannot write {path} ({reason}): make room there, or choose another place") from error


def _write(logs: Logs, path: Path, render: Callable[[np.ndarray], np.ndarray] | None, progress: Progress) -> None:
    columns = {name: column for name, column in logs.columns.items() if name != "pixels"}
    columns |= {"ep_len": logs.lengths.astype(np.int32), "ep_offset": logs.offsets.astype(np.int64)}

    def frames(rows: slice) -> np.ndarray:
        return logs.columns["pixels"][rows] if render is None else render(logs.columns["state"][rows])

    disk, file = _Disk(path), None
    datasets: list[h5py.Dataset] = []  # all stay open, because closing one writes to the disk
    try:
        with disk.changing():
            file = h5py.File(disk, "w", libver=FORMAT)
        for name, column in columns.items():
            values = _fixed_length(column)
            with disk.changing():
                datasets.append(dataset := file.create_dataset(name, data=values))
                dataset.attrs["sha256"] = np.bytes_(_checksum(name, column))
        if render is not None or "pixels" in logs.columns:
            shape = frames(slice(0, 1)).shape[1:]
            with (
                disk.changing()
            ):  # each frame is compressed separately, with a checksum; LZF gives other bytes each time
                stored: dict[str, Any] = {"dtype": np.uint8, "maxshape": (None, *shape), "chunks": (1, *shape)}
                stored |= {"compression": "gzip", "compression_opts": 1, "fletcher32": True}
                datasets.append(dataset := file.create_dataset("pixels", (logs.rows, *shape), **stored))
            for start in progress.track(range(0, logs.rows, FRAMES_AT_ONCE), f"x {FRAMES_AT_ONCE} frames"):
                rows = slice(start, min(start + FRAMES_AT_ONCE, logs.rows))
                rendered = frames(rows)
                with disk.changing():
                    dataset[rows] = rendered
    finally:
        with defer_interrupts():
            if file is not None:
                file.close()
            disk.close()
    disk.require_written()


def _fixed_length(column: np.ndarray) -> np.ndarray:
    """Text with a fixed length, because variable-length text lies in a heap, which has no checksum."""
    if column.dtype.kind not in "US":
        return column
    encoded = np.char.encode(column.astype(str), "utf-8")
    return encoded.astype(h5py.string_dtype(length=max(1, encoded.dtype.itemsize)))


class _Disk(io.FileIO):
    """A file that keeps write errors, because the HDF5 library would crash on them when it closes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        self._error: OSError | None = None

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Defer interrupts, which would disturb the HDF5 library, and raise the first write error."""
        with defer_interrupts():
            yield
        self.require_written()

    def require_written(self) -> None:
        """Raise the first write error."""
        if self._error is not None:
            raise self._error

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer, with zeros after the end of the file."""
        room = memoryview(buffer).cast("B")
        found = super().readinto(room)
        room[found:] = bytes(len(room) - found)
        return len(room)

    def write(self, data: Any, /) -> int:
        left = memoryview(data).cast("B")
        while len(left) and self._error is None:
            try:
                left = left[super().write(left) :]
            except OSError as error:
                self._error = error
        return len(data)

    def truncate(self, size: int | None = None, /) -> int:
        if self._error is None:
            try:
                return super().truncate(size)
            except OSError as error:
                self._error = error
        return size or 0


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
    if not h5py.is_hdf5(path):
        raise ReachcostError(f"{path} is not a file of logs: give one of {LAYOUTS}")
    with reading(path, f"give one of {LAYOUTS}") as file:
        names = {*file}
        if names & {*INDEX}:
            return _read_stable_worldmodel(path, file)
        if any(map(formats.EPISODE.fullmatch, names)):
            return formats.read_minari(path, file)
        if names & {*STATES}:
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
            found[RENAMED.get(name, name)] = column if name == "pixels" else read_column(column)
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
    if known is not None and _checksum(column.name, values) != known:
        raise ReachcostError(
            f"{column.where}: {column.name} does not match its checksum: copy or generate the file "
            "again, or remove the attribute `sha256` of a column that you changed yourself"
        )
    return values
