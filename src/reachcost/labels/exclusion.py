"""Keeping evaluation sets out of training pairs, and proving afterwards that they were."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.labels.sources import LoggedStates


class Exclusion:
    """What some evaluation sets forbid in some logs.

    Attributes:
        sets: The evaluation sets.
        episodes: Logged episodes that hold a start or goal of a set that was drawn from logs. They are found by the
            states themselves, so that other columns, a part of the logs, another file or rounding cannot hide them.

    >>> from reachcost import make_task
    >>> task = make_task("toponav")
    >>> exclusion = Exclusion(task.generate_logs(episodes=5), [task.evaluation_set()])
    >>> exclusion.prove(np.array([0]), np.array([1]))["overlapping_pairs"]
    0
    """

    def __init__(self, logs: Logs, sets: Sequence[EvaluationSet]) -> None:
        _require_sets(logs, sets)
        self.logs, self.sets = logs, sets
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
                    f"these logs hold states of evaluation set {chosen.name!r} but round them to {sources.too_coarse}, "
                    "too coarse to tell which episodes it was drawn from, so none is kept out: give states in full "
                    "precision, or the logs it was drawn from in their own order",
                    ReachcostWarning,
                    stacklevel=3,
                )

    def bans(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Which pairs of rows [P], [P] have exactly the states of an evaluation pair, in either order: bool [P]."""
        if self._states is None:
            return np.zeros(len(first), bool)
        pairs = [self._states.keys[rows] for rows in (first, second)]
        banned = np.isin(pairs[0], self._ends) & np.isin(pairs[1], self._ends)
        for pair in np.flatnonzero(banned):
            banned[pair] = frozenset(keys[pair].tobytes() for keys in pairs) in self._pairs
        return banned

    def prove(self, first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
        """Measure the overlap of sampled pairs of rows [P], [P] with the sets; stop if there is any, else return it."""
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


def _require_sets(logs: Logs, sets: Sequence[EvaluationSet]) -> None:
    for chosen in sets:
        if not isinstance(chosen, EvaluationSet):
            raise ReachcostError(f"exclude= takes evaluation sets, not {chosen!r}: see task.evaluation_set(name)")
        if "state" not in logs.columns:
            raise ReachcostError("exclude= compares states, but these logs have no column 'state': add it")
        logged, wanted = logs.columns["state"].shape[1:], chosen.starts.shape[1:]
        if logged != wanted:
            raise ReachcostError(
                f"states are {logged} in the logs and {wanted} in evaluation set {chosen.name!r}: "
                "they belong to different tasks"
            )
