"""Logs in the formats of other projects: `.npz` files, and the HDF5 layouts of D4RL and Minari."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from reachcost.core.hdf5 import Column, Group
from reachcost.core.json_files import read_json
from reachcost.core.machine import require_memory
from reachcost.data.logs_columns import (
    BOOKKEEPING,
    ENDS,
    LENGTHS,
    NAMES,
    Columns,
    add_column,
    column_name,
    join_episodes,
    only_one,
    require_same,
    split_columns,
)
from reachcost.data.logs_files import read_column
from reachcost.data.observations import LazyFrames, decode_frame
from reachcost.errors import ReachcostError, foreign_errors

PART_OF_EPISODE = re.compile(r"episode_?(\d{1,18})[/._](\w+)")
"""`episode_0/state`: the column of one episode in an `.npz` file."""


def read_npz(path: Path) -> Columns:
    """Read all of an `.npz` file: columns of all episodes, padded episodes [E, T, ...], or arrays `episode_N/NAME`."""
    where = f"{path} (npz)"
    arrays = _load(path, where)
    if any(PART_OF_EPISODE.fullmatch(name) for name in arrays):
        return join_episodes(where, _episodes_by_name(where, arrays))
    arrays = {name: values for name, values in arrays.items() if values.ndim}
    padded = {"state": (3, 5), "pixels": (5,)}  # axes, with one of episodes
    main = next((name for name, values in arrays.items() if values.ndim in padded.get(NAMES.get(name, name), ())), None)
    if main is not None:
        return join_episodes(where, _episodes_by_axis(where, arrays, main))
    return split_columns(where, arrays.items())


def _load(path: Path, where: str) -> dict[str, np.ndarray]:
    """All arrays of a file."""
    remedy = "copy or write it again, or cut it into parts that fit into memory"
    with foreign_errors(f"{where} is not a complete file of arrays", remedy), zipfile.ZipFile(path) as file:
        members = [member for member in file.infolist() if member.filename.endswith(".npy")]
        require_memory(sum(member.file_size for member in members), where, "cut it into parts")
        arrays: dict[str, np.ndarray] = {}
        for member in members:  # numpy would read only the last of several members of one name
            name = member.filename.removesuffix(".npy")
            add_column(where, arrays, name, _array(where, file, member), member.filename)
    return arrays


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


def _episodes_by_name(where: str, arrays: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    episodes: dict[int, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
        found = PART_OF_EPISODE.fullmatch(name)
        if found is None:
            raise ReachcostError(f"{where}: {name[:80]!r} belongs to no episode: leave it out")
        if found[2] not in ENDS:
            number = int(found[1])
            add_column(f"{where}: episode {number}", episodes.setdefault(number, {}), found[2], values, name)
    return [episodes[number] for number in sorted(episodes)]


def _episodes_by_axis(where: str, arrays: Mapping[str, np.ndarray], main: str) -> list[dict[str, np.ndarray]]:
    """Episodes of columns [E, T, ...], each with the given number of rows, by default T."""
    count, longest = arrays[main].shape[:2]
    known = only_one(where, arrays, LENGTHS)
    lengths = arrays[known] if known else np.full(count, longest)
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu" or (lengths > longest).any() or (lengths < 0).any():
        raise ReachcostError(
            f"{where}: {main} is {arrays[main].shape}, {count} episodes of up to {longest} rows, but lengths are "
            f"{lengths.dtype} {lengths.shape}, up to {lengths.max(initial=0)}: give the rows of each episode"
        )
    columns = {name: values for name, values in arrays.items() if name not in BOOKKEEPING}
    for name, values in columns.items():
        if values.ndim < 2 or len(values) != count or values.shape[1] not in (longest, longest - 1):
            raise ReachcostError(f"{where}: {name} is {values.shape}: give it {count} episodes of {longest} rows")
    return [
        {name: values[number, : min(length, values.shape[1])] for name, values in columns.items()}
        for number, length in enumerate(lengths.tolist())
    ]


def read_d4rl(path: Path, file: Group) -> Columns:
    """Read all columns except frames, which stay on disk."""
    where = f"{path} (D4RL)"
    if "actions" not in file and "action" not in file:
        raise ReachcostError(f"{where} has no `actions` for its observations: write both, one row per step")
    infos = file.get("infos")
    inside = infos.items() if isinstance(infos, Group) else ()
    columns: list[tuple[str, Any]] = []
    for name, column in (*file.items(), *((f"info.{name}", column) for name, column in inside)):
        repeats_next_row = name in ("next_observations", "next_states")
        if isinstance(column, Column) and column.ndim and not repeats_next_row:  # values without rows are left out
            columns.append((name, column if column_name(name, column) == "pixels" else read_column(column)))
    return split_columns(where, columns)


FILE, METADATA = "main_data.hdf5", "metadata.json"
JPEG = b"\xff\xd8"
"""First bytes of a frame that Minari encoded."""
EPISODE = re.compile(r"episode_(\d{1,18})")
"""Name of the group of an episode in a Minari dataset."""


class FramesOfEpisodes(LazyFrames):
    """Frames in a column per episode, raw or as JPEG, read by slices or row numbers."""

    def __init__(self, columns: list[Column], where: str) -> None:
        self._columns = columns
        self._stops = np.cumsum([len(column) for column in columns])
        shapes = [column.shape[1:] if column.ndim == 4 else self._decode(column[0]).shape for column in columns]
        for number, shape in enumerate(shapes):
            require_same(where, "pixels", number, shape, shapes[0])
        self.shape = (int(self._stops[-1]), *shapes[0])

    def read(self, numbers: np.ndarray) -> list[np.ndarray]:
        """The frames of some rows [N]."""
        episodes = np.searchsorted(self._stops, numbers, side="right")
        steps = numbers - np.concatenate([[0], self._stops])[episodes]
        places = zip(episodes.tolist(), steps.tolist(), strict=True)
        return [self._decode(self._columns[number][step]) for number, step in places]

    def _decode(self, frame: np.ndarray) -> np.ndarray:
        return frame if frame.ndim == 3 else decode_frame(self._columns[0].where, frame.tobytes())


def minari_file(directory: Path) -> Path | None:
    """The file of the Minari dataset in a directory (or in its `data`), if there is one."""
    for place in (directory, directory / "data"):
        if (place / FILE).is_file():
            return place / FILE
        if (place / METADATA).is_file() and any(place.glob("*/*.arrow")):
            raise ReachcostError(f"{directory} (Minari) is stored as Arrow: create it with data_format='hdf5'")
    return None


def read_minari(path: Path, file: Group) -> Columns:
    """Read all columns except frames, which stay on disk."""
    where = f"{path} (Minari)"
    names = _episode_names(where, file)
    episodes: list[dict[str, np.ndarray]] = []
    frames: list[Column] = []
    seen: set[object] = set()
    for name in names:
        found: dict[str, Column] = {}
        for column, dataset in _minari_columns(where, name, file[name], seen):
            add_column(f"{where}: {name}", found, column, dataset, dataset.name)
        stored = found.pop("pixels", None)
        episode = {column: read_column(dataset) for column, dataset in found.items()}
        if stored is not None:
            frames.append(stored)
            episode["pixels"] = np.empty((len(stored), 1, 1, 1), np.uint8)  # counts rows, the frames are not read
        episodes.append(episode)
    if frames and len(frames) != len(names):
        raise ReachcostError(f"{where}: {len(frames)} of {len(names)} episodes have frames: log them in all or in none")
    columns, lengths = join_episodes(where, episodes)
    actions = next(name for name in reversed(columns) if name.partition(".")[0] == "action")
    _require_counts(path, where, [len(episode[actions]) for episode in episodes])
    return columns | ({"pixels": FramesOfEpisodes(frames, where)} if frames else {}), lengths


def _episode_names(where: str, file: Group) -> list[str]:
    """Names of the groups, episode 0 first; raises an error unless they are numbered from 0, each number once."""
    names: dict[int, str] = {}
    for name in file:
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
    with foreign_errors(f"{place} cannot be read", "copy the dataset again"):
        metadata = read_json(place)
    found = {"total_episodes": len(steps), "total_steps": sum(steps)}
    recorded = {name: metadata[name] for name in found if isinstance(metadata, dict) and name in metadata}
    if any(recorded[name] not in (None, found[name]) for name in recorded):
        raise ReachcostError(f"{where}: {found}, but {METADATA} has {str(recorded)[:120]}: copy the dataset again")


def _minari_columns(where: str, name: str, group: Group | Column, seen: set[object]) -> Iterator[tuple[str, Column]]:
    """Columns of an episode by their names in logs; the name of a part of a group follows a dot, as in `info.NAME`."""
    found = [(path.split("/")[1:], column) for path, column in _leaves(where, name, group, seen)]
    observations, actions = ([one for one in found if one[0][:1] == [part]] for part in ("observations", "actions"))
    if not observations or not actions:
        part = "actions" if observations else "observations"
        raise ReachcostError(f"{where}: {name} has no {part}: collect it again")
    for (part, *names), column in observations:
        yield "pixels" if _is_encoded(column) else column_name(".".join(names) or part, column), column
    for (_, *names), column in actions:
        yield ".".join(["action", *names]), column
    rows = len(observations[0][1])
    for (part, *names), column in found:
        if part == "rewards" and not names:
            yield "reward", column
        elif part == "infos" and column.ndim and len(column) in (rows - 1, rows):
            yield ".".join(["info", *names]), column


def _is_encoded(column: Column) -> bool:
    """Whether a row is the bytes of an image, of fixed or variable length."""
    plain = column.dtype == np.uint8 and column.ndim == 2
    return (plain or column.holds_bytes) and len(column) > 0 and column[0].tobytes().startswith(JPEG)


def _leaves(where: str, path: str, found: Group | Column, seen: set[object]) -> Iterator[tuple[str, Column]]:
    """Columns below a group, or the column itself, by path.

    A group that two links lead to is an error: a few of them below each other make millions of paths.
    """
    if isinstance(found, Column):
        yield path, found
        return
    if found.identity in seen:
        raise ReachcostError(f"{where}: {path} is the same group as another: write each of them separately")
    seen.add(found.identity)
    for name in found:
        yield from _leaves(where, f"{path}/{name}", found[name], seen)
