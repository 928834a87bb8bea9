"""Logged episodes: every column holds the rows of all episodes, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from reachcost.core.arrays import fingerprint_arrays
from reachcost.data.logs_columns import join_episodes, require_rows
from reachcost.data.observations import LazyColumns
from reachcost.errors import ReachcostError, require_type
from reachcost.protocols import Observations


@dataclass(frozen=True)
class Logs:
    """E episodes in R rows.

    Attributes:
        columns: Column name to array [R, ...]; `state` is the task state of each row.
        lengths: Rows of each episode [E]; they add up to R.
        observe: Renders further columns (pixels) from states when they are read, so that logs can hold states alone.

    >>> Logs({"pixels": np.zeros((5, 8, 8, 3), np.uint8)}, lengths=np.array([2, 3])).offsets.tolist()
    [0, 2]
    """

    columns: Mapping[str, np.ndarray]
    lengths: np.ndarray
    observe: Callable[[np.ndarray], Observations] | None = None

    def __post_init__(self) -> None:
        require_type(self.columns, Mapping, "columns", "give a mapping {name: array [rows, ...]}")
        object.__setattr__(self, "lengths", np.asarray(self.lengths))
        if self.lengths.ndim != 1 or (len(self.lengths) and self.lengths.dtype.kind not in "iu"):
            given = str(self.lengths.tolist())[:60]
            raise ReachcostError(f"lengths are {given}: give a list of whole numbers, the rows of each episode")
        if (self.lengths < 0).any():
            raise ReachcostError(f"episode {int(np.argmin(self.lengths))} has a negative length: count its rows")
        require_rows(self.columns, self.lengths)

    @classmethod
    def of_episodes(
        cls, episodes: Sequence[Mapping[str, Any]], observe: Callable[[np.ndarray], Observations] | None = None
    ) -> Logs:
        """Logs of episodes that were collected one by one.

        Args:
            episodes: Columns of each: `state` [rows, size], `pixels` uint8 [rows, height, width, 3] or both; `action`
                and others with a row per state, or one less for what happens between states. `observations` and
                `actions` are accepted as names.
            observe: Renders further columns from states when they are read; a task's `observe`.

        >>> walk = {"state": np.arange(6.0).reshape(3, 2), "action": np.ones((2, 1))}
        >>> Logs.of_episodes([walk, walk])
        Logs(2 episodes, 6 rows, columns action, state)
        """
        if isinstance(episodes, Mapping | str) or not isinstance(episodes, Sequence):
            raise ReachcostError(f"the episodes are a {type(episodes).__name__}: give a list of mappings of columns")
        columns, lengths = join_episodes("these logs", episodes)
        return cls(columns, lengths, observe)

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"Logs({len(self)} episodes, {self.rows} rows, columns {', '.join(sorted(self.columns))})"

    @property
    def rows(self) -> int:
        """R, the rows of all episodes."""
        return int(self.lengths.sum())

    @cached_property
    def offsets(self) -> np.ndarray:
        """First row of each episode [E]."""
        return np.cumsum(self.lengths) - self.lengths

    def episode_of(self, rows: np.ndarray) -> np.ndarray:
        """Number of the episode that each row belongs to."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def in_episodes(self, episodes: np.ndarray) -> np.ndarray:
        """Whether each row belongs to one of the numbered episodes: bool [R]."""
        return np.repeat(np.isin(np.arange(len(self)), episodes), self.lengths)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over episode lengths, states and actions (or all columns, if there are no states).

        It does not cover frames in addition to states: logs are the same whether frames are stored or rendered.
        """
        names = ["state", *(["action"] if "action" in self.columns else [])]
        names = names if "state" in self.columns else sorted(self.columns)
        return fingerprint_arrays(self.lengths, np.array(names), *(self.columns[name] for name in names))

    def keep(self, rows: np.ndarray) -> Logs:
        """Some rows, ascending, as logs; consecutive rows of an episode become one episode.

        >>> logs = Logs({"state": np.arange(6.0)[:, None]}, lengths=np.array([4, 2]))
        >>> logs.keep(np.array([0, 1, 3, 4])).lengths.tolist()
        [2, 1, 1]
        """
        if not len(rows) or (np.diff(rows) < 1).any() or rows[0] < 0 or rows[-1] >= self.rows:
            raise ReachcostError(f"cannot keep these rows: give one or more of 0 to {self.rows - 1}, ascending")
        starts = np.flatnonzero((np.diff(rows, prepend=-2) > 1) | (np.diff(self.episode_of(rows), prepend=-1) > 0))
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Logs(columns, np.diff(starts, append=len(rows)), self.observe)

    def episode(self, number: int) -> dict[str, np.ndarray]:
        """Columns of one episode."""
        if not 0 <= number < len(self):
            raise ReachcostError(f"there is no episode {number}: choose 0 to {len(self) - 1}")
        start = int(self.offsets[number])
        return {name: column[start : start + int(self.lengths[number])] for name, column in self.columns.items()}

    def window_starts(self, span: int) -> np.ndarray:
        """First rows of all windows of `span` rows that lie within one episode."""
        if span < 1:
            raise ReachcostError(f"a window of {span} rows holds nothing: give at least one row")
        rest = np.repeat(self.offsets + self.lengths, self.lengths) - np.arange(self.rows)
        return np.flatnonzero(rest >= span)

    def observations(self, rows: slice | np.ndarray) -> Observations:
        """Observations of these rows, a slice or row numbers, for a world model to encode."""
        logged = {name: partial(column.__getitem__, rows) for name, column in self.columns.items()}
        if self.observe is None:
            return LazyColumns(logged)
        rendered = self.observe(self.columns["state"][rows])
        return LazyColumns({**{name: partial(rendered.__getitem__, name) for name in rendered}, **logged})


def require_logs(logs: object) -> None:
    """Raise an error for anything but logs, such as a path."""
    require_type(logs, Logs, "logs", "open them first, rc.open_logs(path), or make them, rc.Logs.of_episodes(episodes)")
