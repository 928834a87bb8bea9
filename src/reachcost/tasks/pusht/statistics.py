"""Statistics of PushT logs: how much pushing is in them."""

from __future__ import annotations

import numpy as np

from reachcost.data.logs import Logs
from reachcost.tasks.pusht.geometry import touches_walls

MOVED = 1e-9
"""Pixels or radians; a T that nothing touches does not move at all."""
LATER = 25
"""Steps over which displacement and rotation are measured, besides single ones."""


PUBLIC = {
    "deviation of actions": 0.201,
    "deviation of agent positions, px": 94.1,
    "deviation of agent velocities, px/s": 74.5,
    "deviation of block positions, px": 55.1,
}
"""What the expert logs have that DINO-WM trains on, by the statistics it normalises with (mean of the two axes)."""


def log_statistics(logs: Logs) -> dict[str, float]:
    """Contact, displacement and rotation of the T, and how far actions and states spread."""
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
    """How far the T moves and turns within so many steps of an episode: [W], [W]."""
    before = logs.window_starts(steps + 1)
    change = states[before + steps, 2:5] - states[before, 2:5]
    return np.linalg.norm(change[:, :2], axis=1), np.abs((change[:, 2] + np.pi) % (2 * np.pi) - np.pi)
