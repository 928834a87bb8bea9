"""Logs on disk: flat HDF5 columns with `ep_len` and `ep_offset`, the layout of stable-worldmodel.

Files hold states alone (pixels are drawn when read) or pixels too (streamed, never all in memory).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from reachcost.atomic import replaced_file
from reachcost.errors import ReachcostError
from reachcost.logs.episodes import Logs
from reachcost.progress import Progress
from reachcost.protocols import Observations

BOOKKEEPING = ("ep_len", "ep_offset")
RENAMED = {"pos_agent": "state", "ep_idx": "episode_idx"}
"""Column names of released files, and ours for the same thing."""
FRAMES_AT_ONCE = 256


def write_logs(
    logs: Logs,
    path: str | Path,
    *,
    render: Callable[[np.ndarray], np.ndarray] | None = None,
    progress: Progress | None = None,
) -> None:
    """Write logs as one file, in one step: it replaces what was at `path` only when complete.

    Args:
        logs: What to write.
        path: The file.
        render: Draws states [N, ...] as uint8 frames [N, height, width, 3]; with it the file also holds `pixels`.
        progress: Where to show progress.
    """
    with replaced_file(Path(path)) as partial, h5py.File(partial, "w") as file:
        for name, column in logs.columns.items():
            if name != "pixels" or render is None:
                file.create_dataset(name, data=column[:], maxshape=(None, *column.shape[1:]), chunks=True)
        file.create_dataset("ep_len", data=logs.lengths.astype(np.int32))
        file.create_dataset("ep_offset", data=logs.offsets.astype(np.int64))
        if render is not None:
            _stream_pixels(logs, file, render, progress or Progress())


def _stream_pixels(logs: Logs, file: h5py.File, render: Callable[[np.ndarray], np.ndarray], progress: Progress) -> None:
    states = logs.columns["state"]
    shape = render(states[:1]).shape[1:]
    pixels = file.create_dataset("pixels", (logs.rows, *shape), np.uint8, chunks=(1, *shape), compression="lzf")
    for start in progress.track(range(0, logs.rows, FRAMES_AT_ONCE), f"x {FRAMES_AT_ONCE} frames"):
        rows = slice(start, start + FRAMES_AT_ONCE)
        pixels[rows] = render(states[rows])


def open_logs(path: str | Path, observe: Callable[[np.ndarray], Observations] | None = None) -> Logs:
    """Open a file in the layout of stable-worldmodel, whoever wrote it.

    Released names (`pos_agent`, `ep_idx`) become ours (`state`, `episode_idx`). Small columns are read and checked;
    `pixels` stay on disk and are read by slices.

    Args:
        path: The file.
        observe: Makes missing columns from states, for files of states alone; a task's `observe`.
    """
    path = Path(path)
    if not path.is_file():
        raise ReachcostError(f"there are no logs at {path}: make them with `reachcost logs generate`")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ReachcostError(f"{path} is not a whole HDF5 file ({error}): copy or generate it again") from error
    try:
        return _read(path, file, observe)
    except BaseException:
        file.close()
        raise


def _read(path: Path, file: h5py.File, observe: Callable[[np.ndarray], Observations] | None) -> Logs:
    missing = [name for name in BOOKKEEPING if name not in file]
    if missing:
        raise ReachcostError(f"{path} has no {' and no '.join(missing)}: it must hold flat columns with both")
    lengths, offsets = (_dataset(path, file, name)[:].astype(np.int64) for name in BOOKKEEPING)
    _require_offsets(path, lengths, offsets)
    columns: dict[str, np.ndarray] = {}
    for stored in sorted(set(file) - set(BOOKKEEPING)):
        dataset, name = _dataset(path, file, stored), RENAMED.get(stored, stored)
        if name != stored and name in file:
            continue
        if len(dataset) != lengths.sum():
            raise ReachcostError(
                f"{path}: column {stored!r} has {len(dataset)} rows, but the episode lengths add up to {lengths.sum()}"
            )
        # h5py datasets slice and measure like arrays; frames must not be read all at once.
        columns[name] = dataset if name == "pixels" else dataset[:]  # pyright: ignore[reportArgumentType]
    _require_columns(path, columns, lengths, offsets)
    if "pixels" in columns:
        observe = None
    return Logs(columns, lengths, observe)


def _dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.ndim == 0:
        raise ReachcostError(f"{path}: {name!r} is not a column: all columns stand at the root of the file")
    return dataset


def _require_offsets(path: Path, lengths: np.ndarray, offsets: np.ndarray) -> None:
    expected = np.cumsum(lengths) - lengths
    if lengths.shape != offsets.shape or (lengths < 1).any():
        raise ReachcostError(f"{path}: ep_len and ep_offset must be positive counts, one pair per episode")
    if (offsets != expected).any():
        episode = int(np.flatnonzero(offsets != expected)[0])
        raise ReachcostError(
            f"{path}: episode {episode} starts at row {offsets[episode]} by ep_offset but at {expected[episode]} by "
            "the lengths before it: episodes must follow each other without gaps"
        )


def _require_columns(path: Path, columns: dict[str, np.ndarray], lengths: np.ndarray, offsets: np.ndarray) -> None:
    if "state" not in columns and "pixels" not in columns:
        raise ReachcostError(f"{path} has neither `state` (or `pos_agent`) nor `pixels`, only {sorted(columns)}")
    if "pixels" in columns and (columns["pixels"].ndim != 4 or columns["pixels"].dtype != np.uint8):
        shape, kind = columns["pixels"].shape, columns["pixels"].dtype
        raise ReachcostError(f"{path}: pixels are {kind} {shape}: they must be uint8 [rows, height, width, channels]")
    inside = np.ones(int(lengths.sum()), bool)
    inside[offsets + lengths - 1] = False  # the last action of an episode leads nowhere and may be anything
    for name in ("state", "action"):
        if name not in columns or columns[name].dtype.kind != "f":
            continue
        checked = inside if name == "action" else np.ones_like(inside)
        bad = ~np.isfinite(columns[name].reshape(len(inside), -1)).all(1) & checked
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            episode = int(np.searchsorted(offsets, row, side="right")) - 1
            raise ReachcostError(
                f"{path}: {name} is not finite in {int(bad.sum())} rows, first in step {row - offsets[episode]} of "
                f"episode {episode}: drop those episodes before using the file"
            )
