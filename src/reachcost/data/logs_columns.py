"""Columns of logs in other formats: their names, where episodes end, and checks of shapes and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.errors import ReachcostError

WORLD_COLUMN = "world_idx"
"""Column that tells rows of different worlds apart, in logs of several: what stands still differs between them."""
STATES = ("state", "states", "observation", "observations", "obs")
NAMES = {
    **dict.fromkeys(STATES, "state"),
    "actions": "action",
    "rewards": "reward",
    **dict.fromkeys(("image", "images", "frames"), "pixels"),
}


def column_name(stored: str, values: Any) -> str:
    """Our name of a column; what is called an observation and looks like frames is `pixels`.

    >>> column_name("observations", np.zeros((5, 4))), column_name("obs", np.zeros((5, 8, 8, 3), np.uint8))
    ('state', 'pixels')
    """
    frames = values.dtype == np.uint8 and values.ndim == 4
    return "pixels" if stored in STATES and frames else NAMES.get(stored, stored)


def as_column(name: str, values: np.ndarray) -> np.ndarray:
    """One number a row is a column of size one where rows are vectors.

    >>> as_column("action", np.array([2, 0, 1])).shape
    (3, 1)
    """
    return values[:, None] if name in ("state", "action") and values.ndim == 1 else values


VECTORS = ("state", "action", "proprio")
"""Columns whose rows are vectors of numbers."""


def add_column(where: str, columns: dict[str, Any], name: str, values: Any, stored: str) -> None:
    """Add a column by its name; refuse a name that is there already, which would drop one of the two."""
    if name in columns:
        raise ReachcostError(f"{where} has {name!r} twice, also as {stored!r}: leave out one")
    columns[name] = values


def require_width(where: str | Path, columns: Mapping[str, Any]) -> None:
    """Refuse vectors and frames without a single value."""
    for name in (*VECTORS, "pixels"):
        if name in columns and 0 in np.shape(columns[name])[1:]:
            shape = np.shape(columns[name])
            raise ReachcostError(f"{where}: {name} is {shape}, so its rows are empty: write at least one value per row")


def require_columns(where: str | Path, columns: Mapping[str, Any], lengths: np.ndarray, offsets: np.ndarray) -> None:
    """Refuse columns of the wrong kind or shape, and values that are not finite."""
    if "state" not in columns and "pixels" not in columns:
        raise ReachcostError(f"{where} has neither `state` (or `pos_agent`) nor `pixels`, only {sorted(columns)}")
    require_width(where, columns)
    for name in VECTORS:
        if name in columns and (columns[name].ndim != 2 or columns[name].dtype.kind not in "fiu"):
            kind, shape = columns[name].dtype, columns[name].shape
            raise ReachcostError(f"{where}: {name} is {kind} {shape}: it must be numbers [rows, size]")
    if "pixels" in columns:
        kind, shape = columns["pixels"].dtype, columns["pixels"].shape
        if len(shape) != 4 or kind != np.uint8 or shape[-1] not in (1, 3):
            raise ReachcostError(
                f"{where}: pixels are {kind} {shape}: they must be uint8 [rows, height, width, 1 or 3]"
            )
    if "episode_idx" in columns and columns["episode_idx"].dtype.kind not in "biuf":
        raise ReachcostError(f"{where}: episode_idx holds {columns['episode_idx'].dtype}: give numbers")
    if "episode_idx" in columns and (np.diff(columns["episode_idx"].ravel())[offsets[1:] - 1] == 0).any():
        raise ReachcostError(f"{where}: episode_idx does not change where ep_offset begins an episode: one is wrong")
    inside = np.ones(int(lengths.sum()), bool)
    inside[offsets + lengths - 1] = False  # the last action of an episode leads nowhere and may be anything
    for name in VECTORS:
        if name in columns:
            bad = ~np.isfinite(columns[name]).all(1) & (inside if name == "action" else True)
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                episode = int(np.searchsorted(offsets, row, side="right")) - 1
                raise ReachcostError(
                    f"{where}: {name} is not finite in {int(bad.sum())} rows, first in step {row - offsets[episode]} "
                    f"of episode {episode}: drop those episodes before using the file"
                )


def require_steps(where: str, lengths: np.ndarray) -> None:
    """Refuse episodes in which nothing happens."""
    if not len(lengths):
        raise ReachcostError(f"{where}: there are no episodes, log some first")
    if (lengths < 2).any():
        episode = int(np.flatnonzero(lengths < 2)[0])
        raise ReachcostError(
            f"{where}: episode {episode} has {lengths[episode]} row{'s' if lengths[episode] != 1 else ''}, "
            f"{int((lengths < 2).sum())} of {len(lengths)} have fewer than two: leave them out, nothing happens in them"
        )


def join_episodes(where: str, episodes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Columns [R, ...] and lengths [E] of episodes, each a mapping of columns [rows, ...], once they fit together.

    What is logged per step (actions, rewards) may have one row less than the states between them. It is filled up: the
    last action of an episode leads nowhere.

    >>> episode = {"observations": np.zeros((3, 4)), "actions": np.ones((2, 1))}
    >>> columns, lengths = join_episodes("mine", [episode, episode])
    >>> columns["state"].shape, columns["action"].ravel().tolist(), lengths.tolist()
    ((6, 4), [1.0, 1.0, nan, 1.0, 1.0, nan], [3, 3])
    """
    if not episodes:
        raise ReachcostError(f"{where}: there are no episodes, log some first")
    named = [_named(where, number, episode) for number, episode in enumerate(episodes)]
    lengths = np.array([_rows(where, number, episode) for number, episode in enumerate(named)], np.int64)
    require_steps(where, lengths)
    columns = {}
    for name in named[0]:
        parts = []
        for number, (episode, rows) in enumerate(zip(named, lengths.tolist(), strict=True)):
            if episode.keys() != named[0].keys():
                missing = sorted(episode.keys() ^ named[0].keys())
                raise ReachcostError(
                    f"{where}: episode {number} and episode 0 differ in {', '.join(missing)}: give every episode the "
                    "same columns"
                )
            require_same(where, name, number, episode[name].shape[1:], named[0][name].shape[1:])
            parts.append(_filled(where, name, number, episode[name], rows))
        columns[name] = np.concatenate(parts)
    require_columns(where, columns, lengths, np.cumsum(lengths) - lengths)
    return columns, lengths


def require_same(where: str, name: str, number: int, shape: tuple[int, ...], first: tuple[int, ...]) -> None:
    """Refuse an episode whose rows have another shape than those of the first."""
    if shape != first:
        remedy = "scale frames to one size" if name == "pixels" else "log the same numbers in every row"
        raise ReachcostError(f"{where}: {name} is {shape} a row in episode {number} and {first} in episode 0: {remedy}")


def _named(where: str, number: int, episode: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not isinstance(episode, Mapping):
        raise ReachcostError(
            f"{where}: episode {number} is a {type(episode).__name__}: give a mapping, "
            "{'state': [rows, size], 'action': [rows, size]}"
        )
    columns: dict[str, np.ndarray] = {}
    for stored, values in episode.items():
        array = _array(where, number, stored, values)
        name = column_name(stored, array)
        add_column(f"{where}: episode {number}", columns, name, as_column(name, array), stored)
    return columns


def _array(where: str, number: int, name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several shapes
        array = np.empty(0, object)
    if array.ndim == 0 or array.dtype.kind == "O":
        raise ReachcostError(
            f"{where}: {name!r} of episode {number} is no array of rows of one shape: stack one value per step"
        )
    return array


def _rows(where: str, number: int, episode: Mapping[str, np.ndarray]) -> int:
    for name in ("state", "pixels"):
        if name in episode:
            return len(episode[name])
    raise ReachcostError(
        f"{where}: episode {number} has neither 'state' nor 'pixels', only {sorted(episode)}: name one of them so"
    )


def _filled(where: str, name: str, number: int, values: np.ndarray, rows: int) -> np.ndarray:
    if len(values) == rows:
        return values
    if len(values) != rows - 1 or name in ("state", "pixels"):
        raise ReachcostError(
            f"{where}: {name} of episode {number} has {len(values)} rows beside {rows} states: give one row per state, "
            "or one less for what happens between them"
        )
    # Zero where there is no NaN: actions that are indices.
    nothing = np.full((1, *values.shape[1:]), np.nan if values.dtype.kind == "f" else 0, values.dtype)
    return np.concatenate([values, nothing])


LENGTHS = ("lengths", "ep_len", "episode_lengths")
ENDS = ("terminals", "timeouts", "terminations", "truncations", "dones")
"""Flags of the last row of an episode; one of them is enough."""
EPISODE_NUMBERS = ("episode_idx", "ep_idx")


def episode_lengths(where: str, bookkeeping: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    """Rows of each episode [E], from their lengths, or from flags at their ends and numbers of episodes.

    Rows behind the last flag are an episode that was still running. Flags and numbers beside lengths must agree.

    >>> episode_lengths("mine", {"terminals": np.array([0, 0, 1, 0, 1, 0, 0])}, rows=7).tolist()
    [3, 2, 2]
    """
    marks = {name: values for name, values in bookkeeping.items() if name in (*ENDS, *EPISODE_NUMBERS)}
    for name, values in marks.items():
        if values.size != rows:
            raise ReachcostError(f"{where}: {name} has {values.size} values for {rows} rows: give one per row")
        if values.dtype.kind not in "biuf":
            raise ReachcostError(f"{where}: {name} holds {values.dtype}: give numbers, or true and false")
    flags = {name: marks[name].ravel().astype(bool) for name in ENDS if name in marks}
    numbers, known = (only_one(where, bookkeeping, names) for names in (EPISODE_NUMBERS, LENGTHS))
    changes = {numbers: _changes(where, numbers, marks[numbers].ravel())} if numbers else {}
    if known:
        return _given(where, known, bookkeeping[known], rows, {**flags, **changes})
    if not flags and not changes:
        raise ReachcostError(
            f"{where} does not say where its episodes end: add `lengths` [episodes], `terminals` or `timeouts` [rows]"
        )
    ends = np.logical_or.reduce([*flags.values(), *changes.values()])
    if not changes and not ends.any():
        raise ReachcostError(f"{where}: {' and '.join(flags)} mark no row: mark the end of each episode")
    last = np.flatnonzero(ends)
    stops = last if len(last) and last[-1] == rows - 1 else np.append(last, rows - 1)
    return np.diff(stops, prepend=-1)


def only_one(where: str, bookkeeping: Mapping[str, np.ndarray], names: Sequence[str]) -> str | None:
    """The name under which something is stored, of several that mean the same; two of them are refused."""
    found = [name for name in names if name in bookkeeping]
    if len(found) > 1:
        raise ReachcostError(f"{where} has {' and '.join(found)}, which mean the same: leave out one")
    return found[0] if found else None


def _changes(where: str, name: str, numbers: np.ndarray) -> np.ndarray:
    """Rows after which another number follows, bool [R]; a number that comes again is refused."""
    changes = np.diff(numbers, append=numbers[-1:]) != 0
    if len(np.unique(numbers)) <= changes.sum():
        raise ReachcostError(
            f"{where}: its rows are not episode after episode, as numbers in {name} come again: sort the rows by "
            "episode and step, and number no two episodes alike"
        )
    return changes


def _given(where: str, name: str, lengths: np.ndarray, rows: int, ends: Mapping[str, np.ndarray]) -> np.ndarray:
    """Lengths [E] that add up, and that every other mark of an end [R] agrees with."""
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise ReachcostError(f"{where}: {name} is {lengths.dtype} {lengths.shape}: give one whole number per episode")
    if (lengths < 0).any() or (lengths > rows).any():
        wrong = int(lengths[(lengths < 0) | (lengths > rows)][0])
        raise ReachcostError(f"{where}: {name} holds {wrong} for {rows} rows: count the rows of every episode")
    if lengths.sum() != rows:
        raise ReachcostError(
            f"{where}: {name} add up to {lengths.sum()} but there are {rows} rows: count the rows of every episode"
        )
    last = np.zeros(rows, bool)
    last[np.cumsum(lengths)[lengths > 0] - 1] = True
    for other, marked in ends.items():
        if (wrong := np.flatnonzero(marked & ~last)).size:
            raise ReachcostError(
                f"{where}: an episode ends at row {wrong[0]} by {other} but not by {name}: leave out what is wrong"
            )
    return lengths.astype(np.int64)


def require_rows(where: str, columns: Mapping[str, Any], bookkeeping: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the lengths [E] of the episodes in columns [R, ...], once columns and lengths fit together."""
    main = next((name for name in ("state", "pixels") if name in columns), None)
    if main is None:
        others = ", ".join(sorted({*columns, *bookkeeping})) or "nothing"
        known = ", ".join(f"`{name}`" for name, ours in NAMES.items() if ours == "state")
        raise ReachcostError(f"{where} has no states and no frames, only {others[:200]}: name them {known} or `pixels`")
    rows = len(columns[main])
    lengths = episode_lengths(where, bookkeeping, rows)
    for name, column in columns.items():
        if len(column) != rows:
            raise ReachcostError(
                f"{where}: {name} has {len(column)} rows but {main} has {rows}: give every column one row per step"
            )
    require_steps(where, lengths)
    require_columns(where, columns, lengths, np.cumsum(lengths) - lengths)
    return lengths
