"""Exclusion of evaluation sets from training pairs, and the proof that sampled pairs respect it.

Source episodes are found by comparing states, also if the logs store states more coarsely than the set does. States
that were cut, rescaled or made noisy are not found. In coarse logs with more coincidences than sources, a few sources
are not found.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import bdtrc

from reachcost.data.evaluation import EvaluationSet, EvaluationSets, as_sets
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning

BY_CHANCE = 1e-3  # probability of this number of coincidences, below which coincidence is ruled out
CROWDED = 0.05  # maximum share of states that recur in other episodes, for states to identify sources


# Possible roundings of logs: step or type, and the function. In single precision, coordinates of a few hundred that are
# rounded to 1e-4 often differ in the last digit.
ROUNDINGS: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
    (f"{10.0**-digits:g}", lambda states, digits=digits, kind=kind: np.round(states.astype(kind), digits))
    for kind in (np.float64, np.float32)
    for digits in range(5)
]
ROUNDINGS.append(("float16", lambda states: states.astype(np.float16)))


class Exclusion:
    """The pairs and episodes of some logs that one evaluation set, several or none exclude from training.

    Attributes:
        sets: The evaluation sets.
        episodes: Logged episodes with a start or goal of a set that was sampled from logs. They are found by their
            states, so that other columns, a part of the logs, another file or rounding cannot hide them.
    """

    def __init__(self, logs: Logs, exclude: EvaluationSets) -> None:
        self.logs, self.sets = logs, as_sets(exclude)
        for chosen in self.sets:
            _require_states(logs, chosen)
        self._is_source = np.zeros(logs.rows, bool)
        self._banned, self._too_coarse = np.empty(0, np.int64), dict[str, str]()
        if self.sets:
            self._logged = LoggedStates(logs)
        for chosen in self.sets:
            ends, rows, too_coarse = self._logged.find(chosen)
            self._is_source[rows] = True
            self._banned = np.union1d(self._banned, self._logged.pair_numbers(*ends))
            if too_coarse:
                self._too_coarse[chosen.fingerprint] = too_coarse
                warnings.warn(
                    f"these logs round the states of evaluation set {chosen.name!r} to {too_coarse}, too "
                    "coarse to find its source episodes, so none is excluded: give states in full precision, or the "
                    "source logs in their own order",
                    ReachcostWarning,
                    stacklevel=3,
                )
        self.episodes = np.unique(logs.episode_of(np.flatnonzero(self._is_source)))

    def require_rows(self) -> np.ndarray:
        """Rows outside of the excluded episodes, ascending; raises an error if there are none."""
        rows = np.flatnonzero(~self.logs.in_episodes(self.episodes))
        if not len(rows):
            raise ReachcostError("all rows are excluded: log more episodes, or exclude less")
        return rows

    def bans(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether pairs of rows [P], [P] have the states of an evaluation pair, in either order: bool [P]."""
        if not self.sets:
            return np.zeros(len(first), bool)
        numbers = self._logged.numbers
        return np.isin(self._logged.pair_numbers(numbers[first], numbers[second]), self._banned)

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
                f"sources of {names}: sample the pairs of latents.without(those sets)"
            )
        sets = [chosen.fingerprint for chosen in self.sets]
        return {
            "evaluation_sets_sha256": [sha256 for sha256 in sets if sha256 not in self._too_coarse],
            "excluded_episodes": len(self.episodes),
            **overlap,
            **({"too_coarse_for": self._too_coarse} if self._too_coarse else {}),
        }


def _require_states(logs: Logs, chosen: EvaluationSet) -> None:
    if "state" not in logs.columns:
        raise ReachcostError("exclude= compares states, but these logs have no column 'state': add it")
    logged, wanted = logs.columns["state"].shape[1:], chosen.starts.shape[1:]
    if logged != wanted:
        raise ReachcostError(
            f"states are {logged} in the logs and {wanted} in evaluation set {chosen.name!r}: "
            "give the set of the task that made the logs"
        )


class LoggedStates:
    """The different states of logs, numbered."""

    def __init__(self, logs: Logs) -> None:
        self._logs, self._states = logs, logs.columns["state"]
        self._keys, self.numbers = np.unique(self._keys_of(self._states), return_inverse=True)
        """Number of the state of each row [R]; equal states have equal numbers."""

    def pair_numbers(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """A number for pairs of state numbers [P], [P] in either order; negative if a state is missing (-1)."""
        return np.minimum(first, second) * len(self._keys) + np.maximum(first, second)

    def find(self, chosen: EvaluationSet) -> tuple[np.ndarray, np.ndarray, str]:
        """Numbers of the start and goal states of a set [2, E], -1 for a missing one, empty if they match by chance.

        Also returns its source rows, and the rounding of the logs, if rounding hides which matches are coincidences.
        """
        rounding, found = self._as_stored(np.concatenate([chosen.starts, chosen.goals]))
        ends, nothing = found.reshape(2, len(chosen)), np.empty(0, np.int64)
        rows = nothing if chosen.source_episodes is None else np.flatnonzero(np.isin(self.numbers, found))
        if not rounding:
            return ends, rows, ""
        if len(named := self._named_rows(chosen, found)):
            return ends, named, ""
        held = int((found >= 0).sum())
        # Probabilities of finding this number of states by chance, and of finding all of them by chance.
        by_chance, even_all = bdtrc([held - 1, len(found) - 1], len(found), self._crowding) > BY_CHANCE
        if held and (even_all or (self._crowding > CROWDED and not by_chance)):
            return ends[:, :0], nothing, rounding
        return (ends[:, :0], nothing, "") if by_chance else (ends, rows, "")

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
        """The rounding that finds most of some states [N, ...], empty if none changes them, and their numbers [N]."""
        exact = self._keys_of(points)
        with np.errstate(over="ignore"):
            rounded = [(name, self._keys_of(rounding(points))) for name, rounding in self._roundings]
        changed = [(name, self._numbers_of(keys)) for name, keys in rounded if (keys != exact).any()]
        return max(changed, key=lambda named: (named[1] >= 0).sum(), default=("", self._numbers_of(exact)))

    def _numbers_of(self, keys: np.ndarray) -> np.ndarray:
        """Numbers of states [N], -1 for those that the logs do not hold."""
        number = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[number] == keys, number, -1)

    def _named_rows(self, chosen: EvaluationSet, found: np.ndarray) -> np.ndarray:
        """The source rows that the set names, if each of those in the logs holds its state."""
        rows = np.empty(0, np.int64) if chosen.source_rows is None else chosen.source_rows.T.ravel()
        here = np.flatnonzero(rows < self._logs.rows)
        return rows[here] if (self.numbers[rows[here]] == found[here]).all() else rows[:0]

    @cached_property
    def _crowding(self) -> float:
        """Share of the rows with a state of another episode: the probability of a coincidence.

        One is added to both counts, because a few rows cannot show that there are no coincidences.
        """
        episode = self._logs.episode_of(np.arange(self._logs.rows))
        holders = np.bincount(np.unique(self.numbers * len(self._logs) + episode) // len(self._logs))
        return float(((holders > 1)[self.numbers].sum() + 1) / (self._logs.rows + 1))
