"""Which log rows hold the states of an evaluation set, in logs that may store them coarser than the set does.

Not found are states that were cut, rescaled or made noisy, and sources in coarse logs that are fewer than the
coincidences there (a small part of such logs, in another order).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import bdtrc

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs

BY_CHANCE = 1e-3
"""Coincidence is ruled out where it gives as many matches with a smaller probability."""
CROWDED = 0.05
"""Logs with a larger share of states that other episodes hold too are too coarse to tell sources by their states."""


def _to_digits(states: np.ndarray, digits: int, precision: type[np.floating]) -> np.ndarray:
    return np.round(states.astype(precision), digits)


# Coordinates of a few hundred rounded to 1e-4 in single precision, as most logs are, often differ in the last digit.
ROUNDINGS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    *(
        (f"{10.0**-digits:g}", partial(_to_digits, digits=digits, precision=precision))
        for precision in (np.float64, np.float32)
        for digits in range(5)
    ),
    ("float16", lambda states: states.astype(np.float16)),
)
"""How logs may have been rounded: the step or type, and the function."""


@dataclass(frozen=True)
class Sources:
    """What logs hold of an evaluation set.

    Attributes:
        keys: Its start and goal states as the logs store them [2, E]; none if the logs hold them by coincidence.
        rows: Log rows that they were taken from.
        too_coarse: What the logs are rounded to, if that hides which matches are more than coincidences.
    """

    keys: np.ndarray
    rows: np.ndarray
    too_coarse: str = ""


class LoggedStates:
    """The states of logs, sorted, so that others are quickly found among them.

    Attributes:
        keys: One comparable value per row [R].

    >>> from reachcost import make_task
    >>> task = make_task("tworoom")
    >>> logs = task.generate_logs(500)
    >>> goals = task.draw_evaluation_set("balanced", logs, seed=0)
    >>> np.isin(goals.source_rows, LoggedStates(logs).find(goals).rows).all().item()
    True
    """

    def __init__(self, logs: Logs) -> None:
        self._logs, self._states = logs, logs.columns["state"]
        self.keys = self._keys_of(self._states)
        self._order = np.argsort(self.keys, kind="stable")
        self._sorted = self.keys[self._order]

    def find(self, chosen: EvaluationSet) -> Sources:
        """Find the states of a set, and the rows that it was drawn from, if it was drawn from logs."""
        rounding, keys = self._as_stored(np.concatenate([chosen.starts, chosen.goals]))
        ends, nothing = keys.reshape(2, len(chosen)), np.empty(0, np.int64)
        rows = nothing if chosen.source_episodes is None else self._rows(keys)
        if not rounding:
            return Sources(ends, rows)
        if len(named := self._named_rows(chosen, keys)):
            return Sources(ends, named)
        held = self._held(keys)
        # How probable it is that as many, and that all, are found although none of them is from these logs.
        by_chance, even_all = bdtrc([held - 1, len(keys) - 1], len(keys), self._crowding) > BY_CHANCE
        if held and (even_all or (self._crowding > CROWDED and not by_chance)):
            return Sources(ends[:, :0], nothing, too_coarse=rounding)
        return Sources(ends[:, :0], nothing) if by_chance else Sources(ends, rows)

    def _keys_of(self, states: np.ndarray) -> np.ndarray:
        """The bytes of each state [N, ...], in the kind of number the logs store.

        Of floats those of single precision: a copy of the logs may have gone through it.
        """
        stored = self._states.dtype
        rows = np.ascontiguousarray(states, np.float32 if stored.kind == "f" else stored)
        size = math.prod(rows.shape[1:])
        return rows.reshape(len(rows), size).view(np.dtype((np.void, rows.dtype.itemsize * size))).ravel()

    @cached_property
    def _roundings(self) -> list[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
        """The roundings that leave every logged state as it is."""
        if self._states.dtype.kind != "f":
            return []
        few = self._states[:1000]  # most roundings are ruled out by these
        with np.errstate(over="ignore"):
            return [
                (name, rounding)
                for name, rounding in ROUNDINGS
                if all((self._keys_of(rounding(part)) == self._keys_of(part)).all() for part in (few, self._states))
            ]

    def _as_stored(self, points: np.ndarray) -> tuple[str, np.ndarray]:
        """Keys of states under the rounding that finds most of them, and its name; no name if none changes them."""
        exact = self._keys_of(points)
        with np.errstate(over="ignore"):
            rounded = [(name, self._keys_of(rounding(points))) for name, rounding in self._roundings]
        changed = [(name, keys) for name, keys in rounded if (keys != exact).any()]
        return max(changed, key=lambda named: self._held(named[1]), default=("", exact))

    def _held(self, keys: np.ndarray) -> int:
        """How many of these states the logs hold."""
        first, stop = self._places(keys)
        return int((first < stop).sum())

    def _rows(self, keys: np.ndarray) -> np.ndarray:
        """Every row that holds one of these states, ascending."""
        first, stop = self._places(keys)
        held = [self._order[start:end] for start, end in zip(first, stop, strict=True)]
        return np.unique(np.concatenate([self._order[:0], *held]))

    def _places(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.searchsorted(self._sorted, keys, "left"), np.searchsorted(self._sorted, keys, "right")

    def _named_rows(self, chosen: EvaluationSet, keys: np.ndarray) -> np.ndarray:
        """The rows that a set names as its sources, as far as the logs go, if each of them holds its state."""
        rows = np.empty(0, np.int64) if chosen.source_rows is None else chosen.source_rows.T.ravel()
        here = np.flatnonzero(rows < self._logs.rows)
        return rows[here] if (self.keys[rows[here]] == keys[here]).all() else rows[:0]

    @cached_property
    def _crowding(self) -> float:
        """Share of the rows whose state another episode holds, too: the chance that a new state is held by coincidence.

        One is added to both counts, as few rows cannot show that there are no coincidences.
        """
        first = np.flatnonzero(np.concatenate([[True], self._sorted[1:] != self._sorted[:-1]]))
        sizes = np.diff(first, append=len(self._sorted))
        episode = self._logs.episode_of(self._order)
        shared = episode[first] != episode[first + sizes - 1]  # equal states are sorted by row
        return float((sizes[shared].sum() + 1) / (len(self._sorted) + 1))
