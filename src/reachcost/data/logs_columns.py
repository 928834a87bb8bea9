"""Columns of logs in any format: their names, where episodes end, and checks of shapes and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from reachcost.errors import ReachcostError

WORLD_COLUMN = "world_idx"
"""Column with the number of the world (layout) of each row, in logs of several worlds."""
STATES = ("state", "states", "observation", "observations", "obs")
NAMES = {
    **dict.fromkeys(STATES, "state"),
    "actions": "action",
    "rewards": "reward",
    **dict.fromkeys(("image", "images", "frames"), "pixels"),
}
"""Names of columns in files, and in logs."""
VECTORS = ("state", "action", "proprio")
"""Columns whose rows are vectors of numbers."""
LENGTHS = ("lengths", "ep_len", "episode_lengths")
ENDS = ("terminals", "timeouts", "terminations", "truncations", "dones")
"""Flags of the last row of an episode; one of them is enough."""
EPISODE_NUMBERS = ("episode_idx", "ep_idx")
BOOKKEEPING = (*LENGTHS, *ENDS, *EPISODE_NUMBERS)
"""Columns that determine where episodes end."""
Columns: TypeAlias = tuple[dict[str, Any], np.ndarray]
"""Columns [R, ...] by name, and the rows of each episode [E]."""


def column_name(stored: str, values: Any) -> str:
    """Name in logs of a column in a file; an observation that looks like frames is `pixels`."""
    frames = values.dtype == np.uint8 and values.ndim == 4
    return "pixels" if stored in STATES and frames else NAMES.get(stored, stored)


def add_column(where: str, columns: dict[str, Any], name: str, values: Any, stored: str) -> None:
    """Add a column; raises an error if another column has its name."""
    if name in columns:
        raise ReachcostError(f"{where} has {name!r} twice, also as {stored!r}: leave out one")
    columns[name] = values


def _as_vectors(name: str, values: Any) -> Any:
    """States and actions [R] as vectors of one number [R, 1]; other columns as they are."""
    return values[:, None] if name in ("state", "action") and values.ndim == 1 else values


def require_rows(columns: Mapping[str, Any], lengths: np.ndarray, where: str = "these logs") -> None:
    """Raise an error for columns with another number of rows than the episodes, or without a single value."""
    for name, column in columns.items():
        if len(column) != lengths.sum():
            raise ReachcostError(
                f"{where}: {name} has {len(column)} rows, but the episodes have {lengths.sum()}: log every step"
            )
        if name in (*VECTORS, "pixels") and 0 in (shape := np.shape(column))[1:]:
            raise ReachcostError(f"{where}: {name} is {shape}, its rows are empty: write at least one value per row")


def require_columns(where: str, columns: Mapping[str, Any], lengths: np.ndarray) -> None:
    """Raise an error for columns of the wrong type, shape or length, and for values that are not finite."""
    _count_rows(where, columns)
    require_rows(columns, lengths, where)
    if "pixels" in columns:
        dtype, shape = columns["pixels"].dtype, columns["pixels"].shape
        if len(shape) != 4 or dtype != np.uint8 or shape[-1] not in (1, 3):
            raise ReachcostError(f"{where}: pixels are {dtype} {shape}: give uint8 [rows, height, width, 1 or 3]")
    last = np.cumsum(lengths) - 1  # row of each episode
    for name, column in ((name, columns[name]) for name in VECTORS if name in columns):
        if column.ndim != 2 or column.dtype.kind not in "fiu":
            raise ReachcostError(f"{where}: {name} is {column.dtype} {column.shape}: it must be numbers [rows, size]")
        bad = ~np.isfinite(column).all(1)
        if name == "action":
            bad[last] = False  # the last action of an episode is never used and may be anything
        if bad.any():
            episode = int(np.searchsorted(last, row := bad.argmax()))
            step = row - last[episode] + lengths[episode] - 1
            raise ReachcostError(
                f"{where}: {name} is not finite in {bad.sum()} rows, first in step {step} of episode {episode}: drop it"
            )


def _require_steps(where: str, lengths: np.ndarray) -> None:
    if not len(lengths):
        raise ReachcostError(f"there are no episodes in {where}: log some first")
    short = np.flatnonzero(lengths < 2)
    if len(short):
        raise ReachcostError(f"{where}: {len(short)} episodes have no step, first episode {short[0]}: leave them out")


def join_episodes(where: str, episodes: Sequence[Mapping[str, Any]]) -> Columns:
    """Columns [R, ...] and lengths [E] of episodes, each a mapping of columns [rows, ...].

    What is logged per step (actions, rewards) may have one row less than the states between them. It is padded, since
    the last action of an episode is never used.
    """
    named = [_named(where, number, episode) for number, episode in enumerate(episodes)]
    counts = [_count_rows(f"{where}: episode {number}", episode) for number, episode in enumerate(named)]
    lengths = np.array(counts, np.int64)
    _require_steps(where, lengths)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in named[0]}
    for number, (episode, rows) in enumerate(zip(named, lengths.tolist(), strict=True)):
        if episode.keys() != parts.keys():
            missing = ", ".join(sorted(episode.keys() ^ parts.keys()))
            raise ReachcostError(f"{where}: episodes 0 and {number} differ in {missing}: give both the same columns")
        for name, values in episode.items():
            require_same(where, name, number, values.shape[1:], named[0][name].shape[1:])
            parts[name].append(_padded(where, name, number, values, rows))
    columns = {name: np.concatenate(values) for name, values in parts.items()}
    require_columns(where, columns, lengths)
    return columns, lengths


def require_same(where: str, name: str, number: int, shape: tuple[int, ...], first: tuple[int, ...]) -> None:
    """Raise an error for an episode whose rows have another shape than those of the first."""
    if shape != first:
        remedy = "scale frames to one size" if name == "pixels" else "log the same numbers in every row"
        raise ReachcostError(f"{where}: {name} is {shape} a row in episode {number} and {first} in episode 0: {remedy}")


def _named(where: str, number: int, episode: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Columns of an episode by their names in logs."""
    if not isinstance(episode, Mapping):
        raise ReachcostError(f"{where}: episode {number} is a {type(episode).__name__}: give a mapping of columns")
    columns: dict[str, np.ndarray] = {}
    for stored, values in episode.items():
        try:
            array = np.asarray(values)
        except ValueError:  # rows of several shapes
            array = np.empty(0, object)
        if array.ndim == 0 or array.dtype.kind == "O":
            raise ReachcostError(f"{where}: {stored!r} of episode {number} is not an array: stack its values")
        name = column_name(stored, array)
        add_column(f"{where}: episode {number}", columns, name, _as_vectors(name, array), stored)
    return columns


def _count_rows(where: str, columns: Mapping[str, Any]) -> int:
    """Rows of the states or, without them, of the frames; raises an error if there are neither."""
    for name in ("state", "pixels"):
        if name in columns:
            return len(columns[name])
    found = ", ".join(sorted(columns)) or "nothing"
    raise ReachcostError(
        f"{where} has neither 'state' nor 'pixels', only {found[:200]}: name them {', '.join(STATES)} or pixels"
    )


def _padded(where: str, name: str, number: int, values: np.ndarray, rows: int) -> np.ndarray:
    if len(values) == rows:
        return values
    if len(values) != rows - 1 or name in ("state", "pixels"):
        raise ReachcostError(f"{where}: {name} of episode {number} has {len(values)} rows: give {rows}, or one less")
    # Actions that are indices have no NaN: they are padded with 0.
    padding = np.full((1, *values.shape[1:]), np.nan if values.dtype.kind == "f" else 0, values.dtype)
    return np.concatenate([values, padding])


def split_columns(where: str, stored: Iterable[tuple[str, Any]]) -> Columns:
    """Columns [R, ...] of episodes stored one after the other, and their lengths [E], from the stored bookkeeping."""
    columns: dict[str, Any] = {}
    bookkeeping: dict[str, np.ndarray] = {}
    for key, values in stored:
        if key in BOOKKEEPING:
            bookkeeping[key] = values
        else:
            name = column_name(key, values)
            add_column(where, columns, name, _as_vectors(name, values), key)
    lengths = episode_lengths(where, bookkeeping, _count_rows(where, {**columns, **bookkeeping}))
    _require_steps(where, lengths)
    require_columns(where, columns, lengths)
    return columns, lengths


def episode_lengths(where: str, bookkeeping: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    """Rows of each episode [E], from their lengths, or from flags at their ends and numbers of episodes.

    Rows after the last flag are an episode that was still running. Flags and numbers must agree with lengths.

    >>> episode_lengths("mine", {"terminals": np.array([0, 0, 1, 0, 1, 0, 0])}, rows=7).tolist()
    [3, 2, 2]
    """
    marks = {name: values for name, values in bookkeeping.items() if name not in LENGTHS}
    for name, values in marks.items():
        if values.size != rows:
            raise ReachcostError(f"{where}: {name} has {values.size} values for {rows} rows: give one per row")
        if values.dtype.kind not in "biuf":
            raise ReachcostError(f"{where}: {name} holds {values.dtype}: give numbers, or true and false")
    ends = {name: marks[name].ravel().astype(bool) for name in ENDS if name in marks}
    numbers, known = (only_one(where, bookkeeping, names) for names in (EPISODE_NUMBERS, LENGTHS))
    if numbers:
        ends[numbers] = _changes(where, numbers, marks[numbers].ravel())
    if known:
        return _require_lengths(where, known, bookkeeping[known], rows, ends)
    if not ends:
        raise ReachcostError(
            f"{where} does not say where episodes end: add `lengths` [episodes], `terminals` or `timeouts` [rows]"
        )
    marked = np.logical_or.reduce([*ends.values()])
    if not numbers and not marked.any():
        raise ReachcostError(f"{where}: {' and '.join(ends)} mark no row: mark the end of each episode")
    marked[-1:] = True
    return np.diff(np.flatnonzero(marked), prepend=-1)


def only_one(where: str, bookkeeping: Mapping[str, np.ndarray], names: Sequence[str]) -> str | None:
    """The stored one of several names with the same meaning; None if none is stored."""
    found = [name for name in names if name in bookkeeping]
    if len(found) > 1:
        raise ReachcostError(f"{where} has {' and '.join(found)}, which mean the same: leave out one")
    return found[0] if found else None


def _changes(where: str, name: str, numbers: np.ndarray) -> np.ndarray:
    """Rows after which the number of the episode changes, bool [R]."""
    changes = np.diff(numbers, append=numbers[-1:]) != 0
    if len(np.unique(numbers)) <= changes.sum():
        raise ReachcostError(
            f"{where}: numbers in {name} repeat: sort the rows episode after episode, and number episodes uniquely"
        )
    return changes


def _require_lengths(
    where: str, name: str, lengths: np.ndarray, rows: int, ends: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Lengths [E]; raises an error unless they add up and every other mark of an end [R] agrees."""
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise ReachcostError(f"{where}: {name} is {lengths.dtype} {lengths.shape}: give one whole number per episode")
    if (wrong := lengths[(lengths < 0) | (lengths > rows)]).size:
        raise ReachcostError(f"{where}: {name} holds {wrong[0]} for {rows} rows: count the rows of every episode")
    if lengths.sum() != rows:
        raise ReachcostError(f"{where}: {name} add up to {lengths.sum()} but there are {rows} rows: count again")
    last = np.zeros(rows, bool)
    last[np.cumsum(lengths)[lengths > 0] - 1] = True
    for other, marked in ends.items():
        if (wrong := np.flatnonzero(marked & ~last)).size:
            raise ReachcostError(
                f"{where}: an episode ends at row {wrong[0]} by {other} but not by {name}: correct one"
            )
    return lengths.astype(np.int64)
