"""Statistics of TwoRoom logs, and the paper's for the public cache."""

from __future__ import annotations

import numpy as np

from reachcost.data.logs import Logs

PUBLIC_CACHE = {
    "episodes": 10_000,
    "observations": 632_749,
    "shortest episode": 2,
    "longest episode": 101,
    "median length": 67,
    "mean length": 63.3,
    "mean displacement, px": 5.92,
    "median displacement, px": 6.19,
    "steps below 0.1 px, %": 0.037,
}


def log_statistics(logs: Logs) -> dict[str, float]:
    """Length of episodes and displacement per step, under the names of `PUBLIC_CACHE`."""
    moved = np.linalg.norm(np.diff(logs.columns["state"].astype(np.float64), axis=0), axis=1)
    inside = np.ones(logs.rows - 1, bool)
    inside[logs.offsets[1:] - 1] = False  # from the last row of an episode to the first of the next
    moved = moved[inside]
    return {
        "episodes": len(logs),
        "observations": logs.rows,
        "shortest episode": int(logs.lengths.min()),
        "longest episode": int(logs.lengths.max()),
        "median length": float(np.median(logs.lengths)),
        "mean length": float(logs.lengths.mean()),
        "mean displacement, px": float(moved.mean()),
        "median displacement, px": float(np.median(moved)),
        "steps below 0.1 px, %": float(100 * (moved < 0.1).mean()),
    }
