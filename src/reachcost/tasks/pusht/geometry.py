"""The shapes of PushT in pixels of its 512 x 512 window: a disc, a T of two rectangles, four walls.

The origin of the T's frame, whose place a state holds, is the middle of the bar's outer edge.
"""

from __future__ import annotations

import numpy as np

WINDOW = 512
AGENT_RADIUS = 15.0
BAR = np.array([(-60.0, 30.0), (60.0, 30.0), (60.0, 0.0), (-60.0, 0.0)])
STEM = np.array([(-15.0, 30.0), (-15.0, 120.0), (15.0, 120.0), (15.0, 30.0)])
CENTRE_OF_GRAVITY = np.array([0.0, 45.0])  # the point of the T's frame about which it turns
INNER = (7.0, 504.0)  # faces of the walls: the T touches none while all its corners are strictly between them
OUTLINE = np.array([(-60, 0), (60, 0), (60, 30), (15, 30), (15, 120), (-15, 120), (-15, 30), (-60, 30)], np.float64)
"""Corners of the T in its frame [8, 2]."""
MIDDLE = np.array([0.0, 46.0])
REACH = float(np.hypot(60.0, 46.0))  # largest distance of a point of the T from `MIDDLE`, a point of its frame


def turned(points: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Points [..., 2] rotated by angles [...]."""
    sine, cosine = np.sin(angles), np.cos(angles)
    x, y = points[..., 0], points[..., 1]
    return np.stack([cosine * x - sine * y, sine * x + cosine * y], axis=-1)


def corners(poses: np.ndarray) -> np.ndarray:
    """The corners [..., 8, 2] of Ts at poses (x, y, angle) [..., 3]."""
    return poses[..., None, :2] + turned(OUTLINE, poses[..., None, 2])


def clearance(points: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Distance [...] of points [..., 2] from Ts at poses [..., 3], 0 inside."""
    here = turned(points - poses[..., :2], -poses[..., 2])
    across, along = np.abs(here[..., 0]), here[..., 1]
    bar = np.hypot(np.maximum(across - 60, 0), np.maximum(np.abs(along - 15) - 15, 0))
    stem = np.hypot(np.maximum(across - 15, 0), np.maximum(np.abs(along - 75) - 45, 0))
    return np.minimum(bar, stem)


def touches_walls(poses: np.ndarray, depth: float = 0.0) -> np.ndarray:
    """Whether any corner of Ts at poses [..., 3] is at least `depth` behind the face of a wall: bool [...]."""
    found = corners(poses)
    return np.asarray(((found <= INNER[0] - depth) | (found >= INNER[1] + depth)).any(axis=(-2, -1)))
