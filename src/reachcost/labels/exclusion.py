"""Exclusion of evaluation sets from training pairs, and the proof that sampled pairs respect it.

Logged source episodes are found by the states themselves, in logs that may store states more coarsely than the set
does. Not found are states that were cut, rescaled or made noisy, and a few sources in coarse logs with more
coincidences than sources.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import bdtrc

from reachcost.data.evaluation import EvaluationSet, EvaluationSets
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning

BY_CHANCE = 1e-3  # probability of as many matches by coincidence, below which coincidence is ruled out
CROWDED = 0.05  # maximum share of states that recur in other episodes, for states to identify sources


def _to_digits(states: np.ndarray, digits: int, precision: type[np.floating]) -> np.ndarray:
    return np.round(states.astype(precision), digits)


# In single precision, coordinates of a few hundred that are rounded to 1e-4 often differ in the last digit.
ROUNDINGS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    *(
        (f"{10.0**-digits:g}", partial(_to_digits, digits=digits, precision=precision))
        for precision in (np.float64, np.float32)
        for digits in range(5)
    ),
    ("float16", lambda states: states.astype(np.float16)),
)
"""Possible roundings of logs: step or type, and the function."""


class Exclusion:
    """The pairs and episodes of some logs that evaluation sets exclude from training.

    Args:
        logs: The logs.
        exclude: One evaluation set, several or none.

    Attributes:
        sets: The evaluation sets.
        episodes: Logged episodes with a start or goal of a set that was sampled from logs. They are found by their
            states, so that other columns, a part of the logs, another file or rounding cannot hide them.

    >>> from reachcost import make_task
    >>> task = make_task("toponav")
    >>> exclusion = Exclusion(task.generate_logs(episodes=5), [task.evaluation_set()])
    >>> exclusion.prove(np.array([0]), np.array([1]))["overlapping_pairs"]
    0
    """

    def __init__(self, logs: Logs, exclude: EvaluationSets) -> None:
        self.logs, self.sets = logs, _checked_sets(logs, exclude)
        sets = self.sets
        self._states = LoggedStates(logs) if sets else None
        found = [] if self._states is None else [self._states.find(chosen) for chosen in sets]
        self._ends = np.concatenate([sources.keys.ravel() for sources in found] or [[]])
        self._pairs = {frozenset(pair) for sources in found for pair in sources.keys.T.tolist()}
        self._is_source = np.zeros(logs.rows, bool)
        for sources in found:
            self._is_source[sources.rows] = True
        self.episodes = np.unique(logs.episode_of(np.flatnonzero(self._is_source)))
        matches = list(zip(sets, found, strict=True))
        self._too_coarse = {chosen.fingerprint: sources.too_coarse for chosen, sources in matches if sources.too_coarse}
        for chosen, sources in matches:
            if sources.too_coarse:
                warnings.warn(
                    f"these logs round the states of evaluation set {chosen.name!r} to {sources.too_coarse}, too "
                    "coarse to find its source episodes, so none is excluded: give states in full precision, or the "
                    "source logs in their own order",
                    ReachcostWarning,
                    stacklevel=3,
                )

    def bans(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether pairs of rows [P], [P] have the states of an evaluation pair, in either order: bool [P]."""
        if self._states is None:
            return np.zeros(len(first), bool)
        pairs = [self._states.keys[rows] for rows in (first, second)]
        banned = np.isin(pairs[0], self._ends) & np.isin(pairs[1], self._ends)
        for pair in np.flatnonzero(banned):
            banned[pair] = frozenset(keys[pair].tobytes() for keys in pairs) in self._pairs
        return banned

    def prove(self, first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
        """The record that sampled pairs of rows [P], [P] do not overlap with the sets; raises an error if they do."""
        rows = np.concatenate([first, second])
        overlap = {
            "overlapping_pairs": int(self.bans(first, second).sum()),
            "overlapping_rows": int(self._is_source[rows].sum()),
            "overlapping_episodes": int(np.isin(np.unique(self.logs.episode_of(rows)), self.episodes).sum()),
        }
        if any(overlap.values()):
            pairs, touched, episodes = overlap.values()
            names = ", ".join(chosen.name for chosen in self.sets)
            raise ReachcostError(
                f"of {len(first)} pairs, {pairs} are evaluation pairs, and {touched} rows in {episodes} episodes are "
                f"sources of {names}: sample the pairs with exclude= those sets"
            )
        sets = [chosen.fingerprint for chosen in self.sets]
        return {
            "evaluation_sets_sha256": [sha256 for sha256 in sets if sha256 not in self._too_coarse],
            "excluded_episodes": len(self.episodes),
            **overlap,
            **({"too_coarse_for": self._too_coarse} if self._too_coarse else {}),
        }


def _checked_sets(logs: Logs, exclude: EvaluationSets) -> tuple[EvaluationSet, ...]:
    if isinstance(exclude, EvaluationSet):
        exclude = (exclude,)
    if exclude is not None and not isinstance(exclude, list | tuple):
        raise ReachcostError(f"exclude= takes evaluation sets, not {exclude!r:.80}: see task.evaluation_set(name)")
    for chosen in exclude or ():
        if not isinstance(chosen, EvaluationSet):
            raise ReachcostError(f"exclude= takes evaluation sets, not {chosen!r}: see task.evaluation_set(name)")
        if "state" not in logs.columns:
            raise ReachcostError("exclude= compares states, but these logs have no column 'state': add it")
        logged, wanted = logs.columns["state"].shape[1:], chosen.starts.shape[1:]
        if logged != wanted:
            raise ReachcostError(
                f"states are {logged} in the logs and {wanted} in evaluation set {chosen.name!r}: "
                "give the set of the task that made the logs"
            )
    return tuple(exclude or ())


@dataclass(frozen=True)
class Sources:
    """The states of an evaluation set in logs.

    Attributes:
        keys: Its start and goal states as the logs store them [2, E]; empty if the logs hold them by coincidence.
        rows: Log rows that they were sampled from.
        too_coarse: Rounding of the logs, if it hides which matches are coincidences.
    """

    keys: np.ndarray
    rows: np.ndarray
    too_coarse: str = ""


class LoggedStates:
    """The states of logs, sorted for the search.

    Attributes:
        keys: One comparable value per row [R].
    """

    def __init__(self, logs: Logs) -> None:
        self._logs, self._states = logs, logs.columns["state"]
        self.keys = self._keys_of(self._states)
        self._order = np.argsort(self.keys, kind="stable")
        self._sorted = self.keys[self._order]

    def find(self, chosen: EvaluationSet) -> Sources:
        """Find the states of a set, and its source rows if it was sampled from logs."""
        rounding, keys = self._as_stored(np.concatenate([chosen.starts, chosen.goals]))
        ends, nothing = keys.reshape(2, len(chosen)), np.empty(0, np.int64)
        rows = nothing if chosen.source_episodes is None else self._rows(keys)
        if not rounding:
            return Sources(ends, rows)
        if len(named := self._named_rows(chosen, keys)):
            return Sources(ends, named)
        held = self._held(keys)
        # Probabilities that as many, and that all, are found although none of them is from these logs.
        by_chance, even_all = bdtrc([held - 1, len(keys) - 1], len(keys), self._crowding) > BY_CHANCE
        if held and (even_all or (self._crowding > CROWDED and not by_chance)):
            return Sources(ends[:, :0], nothing, too_coarse=rounding)
        return Sources(ends[:, :0], nothing) if by_chance else Sources(ends, rows)

    def _keys_of(self, states: np.ndarray) -> np.ndarray:
        """The bytes of each state [N, ...] in the dtype of the logs; floats in single precision, as copies may be."""
        stored = self._states.dtype
        rows = np.ascontiguousarray(states, np.float32 if stored.kind == "f" else stored)
        size = math.prod(rows.shape[1:])
        return rows.reshape(len(rows), size).view(np.dtype((np.void, rows.dtype.itemsize * size))).ravel()

    @cached_property
    def _roundings(self) -> list[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
        """The roundings that change no logged state."""
        if self._states.dtype.kind != "f":
            return []
        few = self._states[:1000]  # these rule out most roundings
        with np.errstate(over="ignore"):
            return [
                (name, rounding)
                for name, rounding in ROUNDINGS
                if all((self._keys_of(rounding(part)) == self._keys_of(part)).all() for part in (few, self._states))
            ]

    def _as_stored(self, points: np.ndarray) -> tuple[str, np.ndarray]:
        """Name and keys of states under the rounding that finds most of them; an empty name if none changes them."""
        exact = self._keys_of(points)
        with np.errstate(over="ignore"):
            rounded = [(name, self._keys_of(rounding(points))) for name, rounding in self._roundings]
        changed = [(name, keys) for name, keys in rounded if (keys != exact).any()]
        return max(changed, key=lambda named: self._held(named[1]), default=("", exact))

    def _held(self, keys: np.ndarray) -> int:
        """Number of these states in the logs."""
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
        """The source rows that the set names, if each of those in the logs holds its state."""
        rows = np.empty(0, np.int64) if chosen.source_rows is None else chosen.source_rows.T.ravel()
        here = np.flatnonzero(rows < self._logs.rows)
        return rows[here] if (self.keys[rows[here]] == keys[here]).all() else rows[:0]

    @cached_property
    def _crowding(self) -> float:
        """Share of the rows with a state of another episode: the probability of a coincidence.

        One is added to both counts, because a few rows cannot show that there are no coincidences.
        """
        first = np.flatnonzero(np.concatenate([[True], self._sorted[1:] != self._sorted[:-1]]))
        sizes = np.diff(first, append=len(self._sorted))
        episode = self._logs.episode_of(self._order)
        shared = episode[first] != episode[first + sizes - 1]  # equal states are sorted by row
        return float((sizes[shared].sum() + 1) / (len(self._sorted) + 1))
