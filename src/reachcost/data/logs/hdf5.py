"""Logs on disk: flat HDF5 columns with `ep_len` and `ep_offset`, the layout of stable-worldmodel.

Files hold states alone (pixels are drawn when read) or pixels too (streamed, never all in memory). `open_logs` knows
the layouts of others by their content, and leaves each to a file of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from reachcost.base.atomic import replaced_file
from reachcost.base.progress import Progress, as_progress
from reachcost.base.types import require_type
from reachcost.data.logs.checks import require_columns
from reachcost.data.logs.episodes import Logs, require_logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations

with contextlib.suppress(ImportError):  # its filters read the compressed files that some projects release
    import hdf5plugin  # noqa: F401

BOOKKEEPING = ("ep_len", "ep_offset")
RENAMED = {"pos_agent": "state", "ep_idx": "episode_idx"}
"""Column names of released files, and ours for the same thing."""
FRAMES_AT_ONCE = 256
ZIP = b"PK\x03\x04"
"""How an `.npz` file begins."""
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
        render: Draws states [N, ...] as uint8 frames [N, height, width, 3]; with it the file also holds `pixels`.
        overwrite: Replace what is at `path`; otherwise that is refused.
        progress: True shows how far it is.
    """
    require_logs(logs)
    path = Path(path)
    if path.is_dir() or (path.exists() and not overwrite):
        raise ReachcostError(f"{path} exists already: choose another name, or replace it (overwrite=True, --overwrite)")
    try:
        _write(logs, path, render, as_progress(progress))
    except OSError as error:
        raise ReachcostError(f"cannot write {path} ({os.strerror(error.errno or 0)}): choose another place") from error


def _write(logs: Logs, path: Path, render: Callable[[np.ndarray], np.ndarray] | None, progress: Progress) -> None:
    with replaced_file(path) as partial, h5py.File(partial, "w") as file:
        for name, column in logs.columns.items():
            if name != "pixels":
                text = column.dtype.kind in "US"
                data = column.astype(h5py.string_dtype()) if text else column
                file.create_dataset(name, data=data, maxshape=(None, *data.shape[1:]), chunks=True)
        for name, values in (("ep_len", logs.lengths.astype(np.int32)), ("ep_offset", logs.offsets.astype(np.int64))):
            file.create_dataset(name, data=values, maxshape=(None,), chunks=True)
        frames = _frames(logs, render)
        if frames is not None:
            _stream(file, frames, logs.rows, progress)


def _frames(logs: Logs, render: Callable[[np.ndarray], np.ndarray] | None) -> Callable[[slice], np.ndarray] | None:
    """How to get the frames of some rows: drawn, copied from the logs' own pixels, or not at all."""
    if render is not None:
        return lambda rows: render(logs.columns["state"][rows])
    if "pixels" in logs.columns:
        return lambda rows: logs.columns["pixels"][rows]
    return None


def _stream(file: h5py.File, frames: Callable[[slice], np.ndarray], rows: int, progress: Progress) -> None:
    shape = frames(slice(0, 1)).shape[1:]
    pixels = file.create_dataset(
        "pixels", (rows, *shape), np.uint8, maxshape=(None, *shape), chunks=(1, *shape), compression="lzf"
    )
    for start in progress.track(range(0, rows, FRAMES_AT_ONCE), f"x {FRAMES_AT_ONCE} frames"):
        some = slice(start, min(start + FRAMES_AT_ONCE, rows))
        pixels[some] = frames(some)


class ColumnOnDisk:
    """A column that is read by slices or row numbers. It opens its file in every process anew, so it can be pickled."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.path, self.name, self.shape, self.dtype = path, name, shape, dtype
        self._opened: tuple[int, h5py.File] | None = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), h5py.File(self.path, "r")
        if isinstance(rows, np.ndarray):  # one by one: HDF5 takes far longer for a list of rows than for each of them
            return np.stack([self[row] for row in rows.tolist()]) if len(rows) else self[:0]
        try:
            return self._opened[1][self.name][rows]  # pyright: ignore[reportIndexIssue, reportReturnType]
        except OSError as error:
            raise ReachcostError(
                f"{self.path}: {self.name} cannot be read ({error}): the file is damaged, or compressed by a filter "
                "that `pip install hdf5plugin` brings"
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def open_logs(path: str | Path, observe: Callable[[np.ndarray], Observations] | None = None) -> Logs:
    """Open logs in any layout that `docs/data.md` lists; which one it is, the content tells.

    HDF5 or a Lance table of stable-worldmodel (the latter needs `pip install 'reachcost[swm]'`), HDF5 in the layout of
    D4RL, a Minari dataset, or an `.npz` file. Names become ours (`observations`: `state`). Small columns are read and
    checked; frames stay on disk and are read by slices, but for those of `.npz`. Nothing in a file is run.

    Args:
        path: The file, or the directory of the table or dataset.
        observe: Makes missing columns from states, for files of states alone; a task's `observe`.
    """
    require_type(path, str | Path, "path", "give a file, or the directory of a table or dataset")
    path = Path(path)
    if path.is_dir():
        from reachcost.data.logs.minari import minari_file

        inside = minari_file(path)
        if inside is None:
            from reachcost.data.logs.lance import open_lance

            return open_lance(path, observe)
        path = inside
    if not path.is_file():
        raise ReachcostError(
            f"there are no logs at {path}: check the name, or make some with `reachcost logs generate`"
        )
    try:
        with path.open("rb") as start:
            is_zip = start.read(4) == ZIP
        if is_zip:
            from reachcost.data.logs.npz import open_npz

            return open_npz(path, observe)
        with h5py.File(path, "r") as file:
            return _reader(path, file)(path, file, observe)
    except PermissionError as error:
        raise ReachcostError(f"{path} may not be read: change its permissions") from error
    except (OSError, KeyError) as error:
        raise ReachcostError(
            f"{path} is not a whole HDF5 file ({error}): copy or generate it again, or give one of {LAYOUTS}"
        ) from error


def _reader(path: Path, file: h5py.File) -> Callable[..., Logs]:
    """What reads a file of this layout."""
    from reachcost.data.logs.d4rl import is_d4rl, read_d4rl
    from reachcost.data.logs.minari import is_minari, read_minari

    if any(name in file for name in BOOKKEEPING):
        return _read
    if is_minari(file):
        return read_minari
    if is_d4rl(file):
        return read_d4rl
    raise ReachcostError(
        f"{path} is HDF5 of no known layout, it holds {', '.join(file) or 'nothing'}: give one of {LAYOUTS}"
    )


def _read(path: Path, file: h5py.File, observe: Callable[[np.ndarray], Observations] | None) -> Logs:
    missing = [name for name in BOOKKEEPING if name not in file]
    if missing:
        raise ReachcostError(
            f"{path} has no {' and no '.join(missing)}: ep_len and ep_offset must say where its episodes are"
        )
    lengths, offsets = (_dataset(path, file, name)[:] for name in BOOKKEEPING)
    _require_offsets(path, lengths, offsets)
    lengths, offsets = lengths.astype(np.int64), offsets.astype(np.int64)
    columns: dict[str, Any] = {}
    for stored in sorted(str(name) for name in file if name not in BOOKKEEPING):
        dataset, name = _dataset(path, file, stored), RENAMED.get(stored, stored)
        if name != stored and name in file:
            continue
        if len(dataset) != lengths.sum():
            raise ReachcostError(
                f"{path}: column {stored!r} has {len(dataset)} rows, but the episode lengths add up to {lengths.sum()}"
            )
        frames = stored == "pixels"
        columns[name] = ColumnOnDisk(path, stored, dataset.shape, dataset.dtype) if frames else read_column(dataset)
    require_columns(path, columns, lengths, offsets)
    return Logs(columns, lengths, None if "pixels" in columns else observe)


def read_column(dataset: h5py.Dataset) -> np.ndarray:
    """All rows of a column, text as such."""
    if h5py.check_string_dtype(dataset.dtype):
        return np.array(dataset.asstr()[:], dtype=str)
    return dataset[:]


def _dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.ndim == 0:
        raise ReachcostError(f"{path}: {name!r} is not a column: all columns stand at the root of the file")
    return dataset


def _require_offsets(path: Path, lengths: np.ndarray, offsets: np.ndarray) -> None:
    if lengths.ndim != 1 or lengths.shape != offsets.shape or not len(lengths):
        raise ReachcostError(
            f"{path}: ep_len {lengths.shape} and ep_offset {offsets.shape} must hold one number per episode"
        )
    if lengths.dtype.kind not in "iu" or offsets.dtype.kind not in "iu" or (lengths < 1).any():
        raise ReachcostError(f"{path}: ep_len and ep_offset must be whole numbers, and every episode at least one row")
    expected = np.cumsum(lengths) - lengths
    if (offsets != expected).any():
        episode = int(np.flatnonzero(offsets != expected)[0])
        raise ReachcostError(
            f"{path}: episode {episode} starts at row {offsets[episode]} by ep_offset but at {expected[episode]} by "
            "the lengths before it: episodes must follow each other without gaps"
        )
