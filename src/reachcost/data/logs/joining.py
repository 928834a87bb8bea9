"""Episodes that come one by one, put behind each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reachcost.data.logs.checks import add_column, require_columns, require_steps
from reachcost.data.logs.names import as_column, column_name
from reachcost.errors import ReachcostError


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
