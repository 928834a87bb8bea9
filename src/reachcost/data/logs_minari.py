"""Logs in the HDF5 layouts of Minari (a group per episode) and D4RL (flat columns)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.core.hdf5 import Column, Group, OnDisk
from reachcost.core.json_files import read_json
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import (
    BOOKKEEPING,
    STATES,
    add_column,
    as_column,
    column_name,
    join_episodes,
    require_rows,
    require_same,
)
from reachcost.data.logs_hdf5 import ColumnOnDisk, read_column
from reachcost.data.observations import LazyFrames, decode_frame
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations

FILE, METADATA = "main_data.hdf5", "metadata.json"
JPEG = b"\xff\xd8"
"""First bytes of a frame that Minari encoded."""
EPISODE = re.compile(r"episode_(\d{1,18})")
"""Name of the group of an episode."""


class FramesOfEpisodes(LazyFrames):
    """Frames in a column per episode, raw or as JPEG, read by slices or row numbers."""

    def __init__(self, path: Path, columns: list[Column], where: str) -> None:
        self._file = OnDisk(path)
        self.names = [column.name for column in columns]
        self._stops = np.cumsum([len(column) for column in columns])
        shapes = [self._shape(column) for column in columns]
        for number, shape in enumerate(shapes):
            require_same(where, "pixels", number, shape, shapes[0])
        self.shape = (int(self._stops[-1]), *shapes[0])

    def read(self, numbers: np.ndarray) -> np.ndarray:
        """The frames of some rows [N]."""
        episodes = np.searchsorted(self._stops, numbers, side="right")
        firsts = np.concatenate([[0], self._stops])[episodes]
        places = zip(episodes.tolist(), (numbers - firsts).tolist(), strict=True)
        return self.of_one_size([self._decode(self._file.read(self.names[number], step)) for number, step in places])

    def _shape(self, column: Column) -> tuple[int, ...]:
        """Shape of the first frame of the episode."""
        return column.shape[1:] if column.ndim == 4 else self._decode(column[0]).shape

    def _decode(self, frame: np.ndarray) -> np.ndarray:
        return frame if frame.ndim == 3 else decode_frame(self._file.path, frame.tobytes())


def minari_file(directory: Path) -> Path | None:
    """The file of the Minari dataset in a directory (or in its `data`), if there is one."""
    for place in (directory, directory / "data"):
        if (place / FILE).is_file():
            return place / FILE
        if (place / METADATA).is_file() and any(place.glob("*/*.arrow")):
            raise ReachcostError(f"{directory} (Minari) is stored as Arrow: create it with data_format='hdf5'")
    return None


def is_minari(file: Group) -> bool:
    """Whether a file has a group for each episode."""
    return any(EPISODE.fullmatch(str(name)) for name in file)


def read_minari(path: Path, file: Group, observe: Callable[[np.ndarray], Observations] | None) -> Logs:
    """Read all columns except frames, which stay on disk."""
    where = f"{path} (Minari)"
    names = _episode_names(where, file)
    episodes: list[dict[str, np.ndarray]] = []
    frames: list[Column] = []
    seen: set[object] = set()
    for name in names:
        found: dict[str, Column] = {}
        for column, dataset in _columns(where, name, file[name], seen):
            add_column(f"{where}: {name}", found, column, dataset, dataset.name)
        stored = found.pop("pixels", None)
        episode = {column: read_column(dataset) for column, dataset in found.items()}
        if stored is not None:
            frames.append(stored)
            episode["pixels"] = np.empty((len(stored), 1, 1, 1), np.uint8)  # counts rows, the frames are not read
        episodes.append(episode)
    if frames and len(frames) != len(names):
        raise ReachcostError(f"{where}: {len(frames)} of {len(names)} episodes have frames: log them in all or in none")
    columns: dict[str, Any]
    columns, lengths = join_episodes(where, episodes)
    actions = next(name for name in reversed(columns) if name.partition(".")[0] == "action")
    _require_counts(path, where, [len(episode[actions]) for episode in episodes])
    if frames:
        columns["pixels"] = FramesOfEpisodes(path, frames, where)
    return Logs(columns, lengths, None if frames else observe)


def _episode_names(where: str, file: Group) -> list[str]:
    """Names of the groups, episode 0 first; raises an error unless they are numbered from 0, each number once."""
    names: dict[int, str] = {}
    for name in map(str, file):
        found = EPISODE.fullmatch(name)
        if found is None:
            raise ReachcostError(f"{where}: {name[:80]!r} is not the name of an episode: call it episode_N")
        names[int(found[1])] = name
    if sorted(names) != list(range(len(file))):
        raise ReachcostError(
            f"{where}: episodes are not numbered from 0 to {len(file) - 1}, each number once: renumber them"
        )
    return [names[number] for number in range(len(names))]


def _require_counts(path: Path, where: str, steps: Sequence[int]) -> None:
    """Raise an error if the file holds other numbers of episodes or steps than the metadata of its dataset."""
    place = path.parent / METADATA
    if path.name != FILE or not place.exists():
        return
    try:
        metadata = read_json(place)
    except (OSError, ValueError) as error:
        raise ReachcostError(f"{place} cannot be read ({error}): copy the dataset again") from error
    found = {"total_episodes": len(steps), "total_steps": sum(steps)}
    recorded = {name: metadata[name] for name in found if isinstance(metadata, dict) and name in metadata}
    if any(recorded[name] not in (None, found[name]) for name in recorded):
        raise ReachcostError(f"{where}: {found}, but {METADATA} has {str(recorded)[:120]}: copy the dataset again")


def _columns(where: str, episode: str, group: Any, seen: set[object]) -> Iterator[tuple[str, Column]]:
    """Columns of an episode by our names: parts of an observation by their own, infos as `info.name`."""

    def leaves(part: str, name: str) -> list[tuple[str, Column]]:
        found = group[part] if isinstance(group, Group) and part in group else None
        return [] if found is None else [*_leaves(f"{where}: {episode}", found, name, seen)]

    if isinstance(group, Group):
        _require_new(f"{where}: {episode}", group, seen)
    observations, actions = (leaves(part, part) for part in ("observations", "actions"))
    if not observations or not actions:
        part = "actions" if observations else "observations"
        raise ReachcostError(f"{where}: {episode} has no {part}: collect it again")
    for part, dataset in observations:
        name = part.removeprefix("observations.")
        yield "pixels" if _is_encoded(dataset) else column_name(name, dataset), dataset
    for part, dataset in actions:
        yield part.replace("actions", "action", 1), dataset
    if isinstance(rewards := group.get("rewards"), Column):
        yield "reward", rewards
    rows = len(observations[0][1])
    for part, dataset in leaves("infos", "info"):
        if dataset.ndim and len(dataset) in (rows - 1, rows):
            yield part, dataset


def _is_encoded(dataset: Column) -> bool:
    """Whether a row is the bytes of an image, of fixed or variable length."""
    plain = dataset.dtype == np.uint8 and dataset.ndim == 2
    if not plain and not dataset.holds_bytes:
        return False
    return len(dataset) > 0 and dataset[0].tobytes().startswith(JPEG)


def _leaves(where: str, found: Any, name: str, seen: set[object]) -> Iterator[tuple[str, Column]]:
    """Datasets below a group, or the dataset itself, named by their path."""
    if isinstance(found, Column):
        yield name, found
        return
    _require_new(f"{where}: {name}", found, seen)
    for part in found:
        yield from _leaves(where, found[part], f"{name}.{part}", seen)


def _require_new(where: str, group: Group, seen: set[object]) -> None:
    """Raise an error for a group that two links lead to: a few of them below each other make millions of paths."""
    if group.identity in seen:
        raise ReachcostError(f"{where} is the same group as another: write each of them separately")
    seen.add(group.identity)


IGNORED = ("next_observations", "next_states")
"""Columns that repeat the next row."""


def is_d4rl(file: Group) -> bool:
    """Whether a file has observations at its root."""
    return any(name in file for name in STATES)


def read_d4rl(path: Path, file: Group, observe: Callable[[np.ndarray], Observations] | None) -> Logs:
    """Read all columns except frames, which stay on disk."""
    where = f"{path} (D4RL)"
    if "actions" not in file and "action" not in file:
        raise ReachcostError(f"{where} has no `actions` for its observations: write both, one row per step")
    bookkeeping: dict[str, np.ndarray] = {}
    columns: dict[str, Any] = {}
    for stored, column in _d4rl_columns(file):
        if stored in BOOKKEEPING:
            bookkeeping[stored] = read_column(column)
            continue
        name = column_name(stored, column)
        values = ColumnOnDisk(path, column) if name == "pixels" else as_column(name, read_column(column))
        add_column(where, columns, name, values, stored)
    lengths = require_rows(where, columns, bookkeeping)
    return Logs(columns, lengths, None if "pixels" in columns else observe)


def _d4rl_columns(file: Group) -> Iterator[tuple[str, Column]]:
    """Columns at the root, then those of `infos` as `info.name`; values without rows are left out."""
    infos = file.get("infos")
    inside = infos.items() if isinstance(infos, Group) else ()
    for name, found in (*file.items(), *((f"info.{name}", found) for name, found in inside)):
        if isinstance(found, Column) and found.ndim and name not in IGNORED:
            yield name, found
