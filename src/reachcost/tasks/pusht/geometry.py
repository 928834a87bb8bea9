"""The shapes of PushT, in pixels of its 512 x 512 window: a disc that pushes, a T that is pushed, four walls.

The T is two rectangles in a frame of its own: its origin, which a state gives, is the middle of the bar's outer edge.
"""

from __future__ import annotations

import numpy as np

WINDOW = 512
AGENT_RADIUS = 15.0
BAR = np.array([(-60.0, 30.0), (60.0, 30.0), (60.0, 0.0), (-60.0, 0.0)])
STEM = np.array([(-15.0, 30.0), (-15.0, 120.0), (15.0, 120.0), (15.0, 30.0)])
CENTRE_OF_GRAVITY = np.array([0.0, 45.0])
"""Of the T in its frame: it turns about this point."""
INNER = (7.0, 504.0)
"""Faces of the walls: the T touches none while all its corners lie strictly between."""
OUTLINE = np.array([(-60, 0), (60, 0), (60, 30), (15, 30), (15, 120), (-15, 120), (-15, 30), (-60, 30)], np.float64)
"""Corners of the T in its frame [8, 2]."""
MIDDLE = np.array([0.0, 46.0])
REACH = float(np.hypot(60.0, 46.0))
"""No point of the T is farther than this from its middle, a point of its frame."""


def turned(points: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Points [..., 2] of the T's frame as seen from outside, without its position; angles [...] broadcast."""
    sine, cosine = np.sin(angles), np.cos(angles)
    x, y = points[..., 0], points[..., 1]
    return np.stack([cosine * x - sine * y, sine * x + cosine * y], axis=-1)


def corners(poses: np.ndarray) -> np.ndarray:
    """The eight corners of Ts at poses (x, y, angle) [..., 3]: [..., 8, 2].

    >>> corners(np.array([100.0, 50.0, 0.0]))[0].tolist()
    [40.0, 50.0]
    """
    return poses[..., None, :2] + turned(OUTLINE, poses[..., None, 2])


def clearance(points: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Distance of points [..., 2] from Ts at poses [..., 3], 0 within: [...].

    >>> clearance(np.array([[100.0, 20.0]]), np.array([[100.0, 50.0, 0.0]])).tolist()
    [30.0]
    """
    here = turned(points - poses[..., :2], -poses[..., 2])
    across, along = np.abs(here[..., 0]), here[..., 1]
    bar = np.hypot(np.maximum(across - 60, 0), np.maximum(np.abs(along - 15) - 15, 0))
    stem = np.hypot(np.maximum(across - 15, 0), np.maximum(np.abs(along - 75) - 45, 0))
    return np.minimum(bar, stem)


def touches_walls(poses: np.ndarray, depth: float = 0.0) -> np.ndarray:
    """Whether any corner of Ts at poses [..., 3] lies on the face of a wall, or so deep behind it: bool [...]."""
    found = corners(poses)
    return np.asarray(((found <= INNER[0] - depth) | (found >= INNER[1] + depth)).any(axis=(-2, -1)))
