"""Renders batches of PushT states at any resolution, close to the public environment.

A shape is a distance function: the share of its colour in a pixel depends on the pixel's distance from the edge.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.tasks.contract import require_finite
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, MIDDLE, REACH, WINDOW, turned

Layers = tuple[tuple[np.ndarray, tuple[float, float, float]], ...]  # shares [n, width, width] and the colour of each
Shape = Callable[[np.ndarray, np.ndarray, float], Layers]  # x, y [n, width, width] in its frame, size of a pixel
SIZE = 224
GOAL_POSE = np.array([256.0, 256.0, np.pi / 4])  # of the green T of every frame, which is not an episode's goal
WHITE, WALL, GREEN = (255.0, 255.0, 255.0), (211.0, 211.0, 211.0), (144.0, 238.0, 144.0)
BLOCK_EDGE, BLOCK = (119.0, 136.0, 153.0), (142.0, 163.0, 183.0)
AGENT_EDGE, AGENT = (65.0, 105.0, 225.0), (78.0, 126.0, 255.0)
EDGE = 2.0  # half the width in pixels of the lines around the T, and of the walls
AGENT_LINE = 4.0
VALUES_AT_ONCE = 60_000  # pixels of the patches that are computed together, few enough to stay in the processor's cache


def render(states: np.ndarray, size: int = SIZE) -> np.ndarray:
    """Render states [N, 7] as uint8 [N, size, size, 3]."""
    if not 8 <= size <= WINDOW:
        raise ReachcostError(f"cannot render frames of {size} px: choose 8 to {WINDOW}")
    states = np.asarray(states, np.float64)
    if states.ndim != 2 or states.shape[1] != 7:
        raise ReachcostError(f"PushT cannot render states {states.shape}: give [N, 7]")
    require_finite("state", states)
    frames = np.empty((len(states), size, size, 3), np.uint8)
    frames[:] = background(size)
    middles = states[:, 2:4] + turned(MIDDLE, states[:, 4])
    _paint(frames, middles, states[:, 4], REACH + EDGE, _block)
    _paint(frames, states[:, :2], states[:, 4], AGENT_RADIUS, _agent)
    return frames


@lru_cache(maxsize=16)
def background(size: int) -> np.ndarray:
    """White, with the walls and the green T: uint8 [size, size, 3]."""
    frames = np.full((1, size, size, 3), 255, np.uint8)
    pixel = WINDOW / size
    places = (np.arange(size) + 0.5) * pixel - 0.5
    off = np.abs(np.abs(places - 255.5) - 250.5)  # from the middle line of the walls
    outside = np.maximum(np.abs(places - 255.5) - 250.5, 0)
    line = np.minimum(np.maximum(off[:, None], outside[None]), np.maximum(outside[:, None], off[None]))
    share = _share(line - EDGE, pixel)[..., None]
    frames[0] = np.rint(np.array(WHITE) * (1 - share) + np.array(WALL) * share)
    middle = GOAL_POSE[:2] + turned(MIDDLE, GOAL_POSE[2])
    _paint(frames, middle[None], GOAL_POSE[2:], REACH + EDGE, _goal)
    frames[0].setflags(write=False)
    return frames[0]


def _paint(frames: np.ndarray, middles: np.ndarray, angles: np.ndarray, reach: float, shape: Shape) -> None:
    """Paint a shape of radius `reach` into every frame [N, size, size, 3], at its middle [N, 2] and angle [N]."""
    size = frames.shape[1]
    pixel = WINDOW / size
    half = int(np.ceil(reach / pixel + 0.5))
    width = min(size, 2 * half + 1)
    corner = np.clip(np.floor(middles / pixel).astype(np.int64) - half, 0, size - width)
    steps = (np.arange(width) + 0.5) * pixel - 0.5  # middles of the window's pixels are integers
    windows = np.lib.stride_tricks.sliding_window_view(frames, (width, width), axis=(1, 2), writeable=True)
    chunk = max(1, VALUES_AT_ONCE // width**2)
    for start in range(0, len(frames), chunk):
        rows = np.arange(start, min(start + chunk, len(frames)))
        places = (corner[rows, :, None] * pixel + steps - middles[rows, :, None]).astype(np.float32)
        sine, cosine = (wave(angles[rows]).astype(np.float32)[:, None] for wave in (np.sin, np.cos))
        across, down = places[:, 0], places[:, 1]
        x = (sine * down)[:, :, None] + (cosine * across)[:, None, :]
        y = (cosine * down)[:, :, None] - (sine * across)[:, None, :]
        there = rows, corner[rows, 1], corner[rows, 0]
        windows[there] = _blend(windows[there], shape(x, y, pixel))


def _blend(patches: np.ndarray, layers: Layers) -> np.ndarray:
    """Patches uint8 [n, 3, width, width] under layers, the first one lowest."""
    kept, paint = None, [np.float32(0.5)] * 3
    for share, colour in layers:
        rest = 1 - share
        kept = rest if kept is None else kept * rest
        paint = [rest * below + share * np.float32(value) for below, value in zip(paint, colour, strict=True)]
    for channel in range(3):
        patches[:, channel] = patches[:, channel] * kept + paint[channel]
    return patches


def _block(x: np.ndarray, y: np.ndarray, pixel: float) -> Layers:
    edge = _distance_from_edge(x, y)
    return (_share(edge - EDGE, pixel), BLOCK_EDGE), (_share(edge + EDGE, pixel), BLOCK)


def _goal(x: np.ndarray, y: np.ndarray, pixel: float) -> Layers:
    return ((_share(_distance_from_edge(x, y), pixel), GREEN),)


def _agent(x: np.ndarray, y: np.ndarray, pixel: float) -> Layers:
    edge = np.sqrt(x * x + y * y) - AGENT_RADIUS
    return (_share(edge, pixel), AGENT_EDGE), (_share(edge + AGENT_LINE, pixel), AGENT)


def _distance_from_edge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Distance from the T around its middle: negative inside a rectangle, 0 on the line between the two."""
    across = np.abs(x)
    bar = np.maximum(across - 60, np.abs(y + 31) - 15)
    stem = np.maximum(across - 15, np.abs(y - 29) - 45)
    return np.minimum(bar, stem)


def _share(distance: np.ndarray, pixel: float) -> np.ndarray:
    """Share of a pixel within an edge at this distance from its middle."""
    share = distance * (-1 / pixel) + 0.5
    return np.minimum(np.maximum(share, 0, out=share), 1, out=share)
