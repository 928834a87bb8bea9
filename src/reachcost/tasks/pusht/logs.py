"""PushT logs: episodes of the policies in the columns of the public files, and statistics of pushing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from reachcost.data.logs import Logs
from reachcost.protocols import Observations
from reachcost.tasks.pusht import policies
from reachcost.tasks.pusht.geometry import touches_walls
from reachcost.tasks.workers import Workers

STEPS = 100
PURPOSE = "pusht-logs"
AT_ONCE = 1000  # episodes simulated in one batch; larger batches are not faster
ALONE = 200  # episodes that one process simulates before a second one has started
MOVED = 1e-9  # pixels or radians; a T without contact does not move at all
LATER = 25  # steps over which displacement and rotation are measured, in addition to single steps
PUBLIC = {
    "deviation of actions": 0.201,
    "deviation of agent positions, px": 94.1,
    "deviation of agent velocities, px/s": 74.5,
    "deviation of block positions, px": 55.1,
}
"""Standard deviations of DINO-WM's expert logs, by which it normalises (mean of the two axes)."""


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
    """Log episodes by their numbers [E]; an episode depends on neither the other episodes nor the workers.

    The action of the last row of an episode is zero, as none was executed there.
    """
    team = Workers(partial(_Simulation, seed, purpose, steps, kinds), workers, "PushT logs")
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
    """Position and velocity of the agent [N, 4]."""
    return np.concatenate([states[:, :2], states[:, 5:]], axis=1)


def default_workers(episodes: int) -> int:
    """Number of worker processes worth starting for this many episodes."""
    return 1 if episodes <= ALONE else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class _Simulation:
    """Simulates some of the episodes in its process."""

    def __init__(self, seed: int, purpose: str, steps: int, kinds: Sequence[int] | None) -> None:
        self._collect = partial(policies.collect, seed, steps=steps, purpose=purpose, kinds=kinds)

    def collect(self, episodes: np.ndarray) -> tuple[np.ndarray, ...]:
        """States, actions and kinds of policies of these episodes."""
        parts = [self._collect(episodes[start : start + AT_ONCE]) for start in range(0, len(episodes), AT_ONCE)]
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def close(self) -> None:
        """Nothing is open."""


def log_statistics(logs: Logs) -> dict[str, float]:
    """Contact, displacement and rotation of the T, and standard deviations of actions and states."""
    states = np.asarray(logs.columns["state"], np.float64)
    shift, turn = _changes(logs, states, 1)
    moved = (shift > MOVED) | (turn > MOVED)
    later_shift, later_turn = _changes(logs, states, LATER)
    taken = np.asarray(logs.columns["action"], np.float64)[logs.window_starts(2)]
    return {
        "episodes": len(logs),
        "observations": logs.rows,
        "mean length": float(logs.lengths.mean()),
        "steps that move the block, %": float(100 * moved.mean()),
        "block displacement in those, px": float(shift[moved].mean()) if moved.any() else 0.0,
        "block rotation in those, degrees": float(np.degrees(turn[moved].mean())) if moved.any() else 0.0,
        f"block displacement in {LATER} steps, px": float(later_shift.mean()) if len(later_shift) else 0.0,
        f"block rotation in {LATER} steps, degrees": float(np.degrees(later_turn.mean())) if len(later_turn) else 0.0,
        "rows with the block at a wall, %": float(100 * touches_walls(states[:, 2:5]).mean()),
        "deviation of actions": float(taken.std(0).mean()) if len(taken) else 0.0,
        "deviation of agent positions, px": float(states[:, :2].std(0).mean()),
        "deviation of agent velocities, px/s": float(states[:, 5:].std(0).mean()),
        "deviation of block positions, px": float(states[:, 2:4].std(0).mean()),
    }


def _changes(logs: Logs, states: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Displacement and rotation of the T within this number of steps of an episode: [W], [W]."""
    before = logs.window_starts(steps + 1)
    change = states[before + steps, 2:5] - states[before, 2:5]
    return np.linalg.norm(change[:, :2], axis=1), np.abs((change[:, 2] + np.pi) % (2 * np.pi) - np.pi)
