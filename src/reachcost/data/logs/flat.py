"""Rows of all episodes in one array a column, as npz and D4RL files hold them: which rows are an episode?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from reachcost.data.logs.checks import require_columns, require_steps
from reachcost.data.logs.episodes import Logs
from reachcost.data.logs.names import NAMES
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations

LENGTHS = ("lengths", "ep_len", "episode_lengths")
ENDS = ("terminals", "timeouts", "terminations", "truncations", "dones")
"""Flags of the last row of an episode; one of them is enough."""
NUMBERS = ("episode_idx", "ep_idx")


def episode_lengths(where: str, bookkeeping: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    """Rows of each episode [E], from their lengths, or from flags at their ends and numbers of episodes.

    Rows behind the last flag are an episode that was still running. Flags and numbers beside lengths must agree.

    >>> episode_lengths("mine", {"terminals": np.array([0, 0, 1, 0, 1, 0, 0])}, rows=7).tolist()
    [3, 2, 2]
    """
    marks = {name: values for name, values in bookkeeping.items() if name in (*ENDS, *NUMBERS)}
    for name, values in marks.items():
        if values.size != rows:
            raise ReachcostError(f"{where}: {name} has {values.size} values for {rows} rows: give one per row")
        if values.dtype.kind not in "biuf":
            raise ReachcostError(f"{where}: {name} holds {values.dtype}: give numbers, or true and false")
    flags = {name: marks[name].ravel().astype(bool) for name in ENDS if name in marks}
    numbers, known = (only_one(where, bookkeeping, names) for names in (NUMBERS, LENGTHS))
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


def logs_of_rows(
    where: str,
    columns: Mapping[str, Any],
    bookkeeping: Mapping[str, np.ndarray],
    observe: Callable[[np.ndarray], Observations] | None,
) -> Logs:
    """Logs of columns [R, ...] that hold all episodes one after the other."""
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
    return Logs(dict(columns), lengths, None if "pixels" in columns else observe)
