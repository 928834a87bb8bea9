"""PushT logs: what the policies did, in the columns of the public files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from reachcost.data.logs import Logs
from reachcost.protocols import Observations
from reachcost.tasks.pusht import policies
from reachcost.tasks.workers import Workers

STEPS = 100
PURPOSE = "pusht-logs"
AT_ONCE = 1000
"""Episodes that are simulated side by side; more gain nothing."""
ALONE = 200
"""Episodes that one process makes before another has started."""


def make_logs(
    seed: int,
    episodes: np.ndarray,
    purpose: str = PURPOSE,
    *,
    steps: int = STEPS,
    kinds: Sequence[int] | None = None,
    workers: int = 1,
    observe: Callable[[np.ndarray], Observations] | None = None,
) -> Logs:
    """Log episodes by their numbers [E]; each is the same whatever the others are, and however many workers.

    The action of the last row of an episode is zero, as none was taken there.
    """
    team = Workers(partial(_Desk, seed, purpose, steps, kinds), workers, "PushT logs")
    try:
        states, actions, made_by = team.call("collect", episodes)
    finally:
        team.close()
    rows = steps + 1
    count = len(episodes)
    actions = np.concatenate([actions, np.zeros((count, 1, 2), np.float32)], axis=1)
    states = states.reshape(-1, 7)
    columns = {
        "state": states,
        "proprio": proprio(states),
        "action": actions.reshape(-1, 2),
        "policy": np.repeat(made_by, rows),
        "episode_idx": np.repeat(np.arange(count), rows),
        "step_idx": np.tile(np.arange(rows), count),
    }
    return Logs(columns, np.full(count, rows), observe)


def proprio(states: np.ndarray) -> np.ndarray:
    """What the agent knows of itself: its position and velocity [N, 4]."""
    return np.concatenate([states[:, :2], states[:, 5:]], axis=1)


def default_workers(episodes: int) -> int:
    """Processes that pay for so many episodes."""
    return 1 if episodes <= ALONE else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class _Desk:
    """Makes some of the episodes in its process."""

    def __init__(self, seed: int, purpose: str, steps: int, kinds: Sequence[int] | None) -> None:
        self._make = partial(policies.collect, seed, steps=steps, purpose=purpose, kinds=kinds)

    def collect(self, episodes: np.ndarray) -> tuple[np.ndarray, ...]:
        """States, actions and kinds of policies of these episodes."""
        parts = [self._make(episodes[start : start + AT_ONCE]) for start in range(0, len(episodes), AT_ONCE)]
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def close(self) -> None:
        """Nothing is open."""
