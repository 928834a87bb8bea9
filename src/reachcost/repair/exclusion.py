"""Keeping evaluation sets out of training pairs, and proving afterwards that they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError


class Exclusion:
    """What some evaluation sets forbid in some logs.

    Attributes:
        sets: The evaluation sets.
        episodes: Logged episodes that hold a start or goal of a set that was drawn from logs. They are found by the
            states themselves, so that other columns, a part of the logs or another file cannot hide them.

    >>> from reachcost import make_task
    >>> task = make_task("toponav")
    >>> exclusion = Exclusion(task.generate_logs(episodes=5), [task.evaluation_set()])
    >>> exclusion.prove(np.array([0]), np.array([1]))["overlapping_pairs"]
    0
    """

    def __init__(self, logs: Logs, sets: Sequence[EvaluationSet]) -> None:
        _require_sets(logs, sets)
        self.logs, self.sets = logs, sets
        ends = [_keys(logs, points) for chosen in sets for points in (chosen.starts, chosen.goals)]
        self._pairs = {
            frozenset(pair)
            for starts, goals in zip(ends[::2], ends[1::2], strict=True)
            for pair in zip(starts.tolist(), goals.tolist(), strict=True)
        }
        self._ends = np.concatenate(ends) if ends else None
        drawn = [chosen for chosen in sets if chosen.source_episodes is not None]
        points = [points for chosen in drawn for points in (chosen.starts, chosen.goals)]
        self._is_source = (
            np.isin(_keys(logs, logs.columns["state"]), _keys(logs, np.concatenate(points)))
            if drawn
            else np.zeros(logs.rows, bool)
        )
        self.episodes = np.unique(logs.episode_of(np.flatnonzero(self._is_source)))

    def bans(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Which pairs of rows [P], [P] have exactly the states of an evaluation pair, in either order: bool [P]."""
        if self._ends is None:
            return np.zeros(len(first), bool)
        pairs = [_keys(self.logs, self.logs.columns["state"][rows]) for rows in (first, second)]
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
        return {
            "evaluation_sets_sha256": [chosen.fingerprint for chosen in self.sets],
            "excluded_episodes": len(self.episodes),
            **overlap,
        }


def _keys(logs: Logs, states: np.ndarray) -> np.ndarray:
    """One comparable value per state [N, D]: its bytes, in the kind of number the logs store.

    Of floats those of single precision: a copy of the logs may have gone through it.
    """
    stored = logs.columns["state"].dtype
    rows = np.ascontiguousarray(states, np.float32 if stored.kind == "f" else stored)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


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
