"""Draws batches of PushT states straight from their numbers, alike the public environment, at any resolution.

Every shape is its distance function: a pixel takes the share of a colour that its distance from the edge leaves it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, REACH, WINDOW, turned

SIZE = 224
GOAL_POSE = np.array([256.0, 256.0, np.pi / 4])
"""The green T of every frame. It is scenery: episodes have goals of their own, which nothing shows."""
WHITE, WALL, GREEN = (255.0, 255.0, 255.0), (211.0, 211.0, 211.0), (144.0, 238.0, 144.0)
BLOCK_EDGE, BLOCK = (119.0, 136.0, 153.0), (142.0, 163.0, 183.0)
AGENT_EDGE, AGENT = (65.0, 105.0, 225.0), (78.0, 126.0, 255.0)
EDGE = 2.0
"""Half the width of the lines around the T, and of the walls."""
AGENT_LINE = 4.0
MIDDLE = np.array([0.0, 60.0])
"""Of the T's frame: the whole T lies within `REACH` of it."""
VALUES_AT_ONCE = 60_000
"""Pixels of the patches that are computed together, so that they stay in the cache."""


def render(states: np.ndarray, size: int = SIZE) -> np.ndarray:
    """Draw states [N, 7] as uint8 [N, size, size, 3]."""
    if not 8 <= size <= WINDOW:
        raise ReachcostError(f"cannot draw frames of {size} px: choose 8 to {WINDOW}")
    states = np.asarray(states, np.float64)
    if states.ndim != 2 or states.shape[1] != 7:
        raise ReachcostError(f"PushT draws states [N, 7], not {states.shape}")
    if not np.isfinite(states).all():
        row = int(np.flatnonzero(~np.isfinite(states).all(1))[0])
        raise ReachcostError(f"state {row} is {states[row].tolist()}: PushT draws finite numbers")
    frames = np.empty((len(states), size, size, 3), np.uint8)
    frames[:] = background(size)
    middles = states[:, 2:4] + turned(MIDDLE, states[:, 4])
    _paint(frames, middles, states[:, 4], REACH + EDGE, _block_colours)
    _paint(frames, states[:, :2], states[:, 4], AGENT_RADIUS, _agent_colours)
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
    _paint(frames, middle[None], GOAL_POSE[2:], REACH + EDGE, _goal_colours)
    frames[0].setflags(write=False)
    return frames[0]


def _paint(frames, middles, angles, reach, colours) -> None:
    """Paint one shape into every frame, on the patch around its middle that it may cover.

    Args:
        frames: What is painted on, in place, uint8 [N, size, size, 3].
        middles: Of the shapes [N, 2], in pixels of the window.
        angles: Of the shapes [N].
        reach: Pixels of the window from its middle that the shape covers at most.
        colours: Makes shares and colours of places in the shape's frame.
    """
    size = frames.shape[1]
    pixel = WINDOW / size
    half = int(np.ceil(reach / pixel)) + 1
    width = min(size, 2 * half + 1)
    corner = np.clip(np.floor(middles / pixel).astype(np.int64) - half, 0, size - width)
    chunk = max(1, VALUES_AT_ONCE // width**2)
    steps = (np.arange(width) + 0.5) * pixel - 0.5  # the window's pixels have whole numbers for their middles
    for start in range(0, len(frames), chunk):
        part = slice(start, start + chunk)
        places = (corner[part, :, None] * pixel + steps - middles[part, :, None]).astype(np.float32)
        sine, cosine = (wave(angles[part]).astype(np.float32)[:, None] for wave in (np.sin, np.cos))
        across, down = places[:, 0], places[:, 1]
        x = (sine * down)[:, :, None] + (cosine * across)[:, None, :]
        y = (cosine * down)[:, :, None] - (sine * across)[:, None, :]
        layers = colours(x, y, np.float32(pixel))
        views = [
            frame[top : top + width, left : left + width]
            for frame, (left, top) in zip(frames[part], corner[part].tolist(), strict=True)
        ]
        patch = np.stack(views)
        for channel in range(3):
            value = patch[..., channel].astype(np.float32)
            for share, colour in layers:
                value += share * (np.float32(colour[channel]) - value)
            patch[..., channel] = value + np.float32(0.5)
        for view, painted in zip(views, patch, strict=True):
            view[:] = painted


def _block_colours(x: np.ndarray, y: np.ndarray, pixel: np.float32):
    edge = _distance_from_edge(x, y)
    return (_share(edge - EDGE, pixel), BLOCK_EDGE), (_share(edge + EDGE, pixel), BLOCK)


def _goal_colours(x: np.ndarray, y: np.ndarray, pixel: np.float32):
    return ((_share(_distance_from_edge(x, y), pixel), GREEN),)


def _agent_colours(x: np.ndarray, y: np.ndarray, pixel: np.float32):
    edge = np.sqrt(x * x + y * y) - np.float32(AGENT_RADIUS)
    return (_share(edge, pixel), AGENT_EDGE), (_share(edge + AGENT_LINE, pixel), AGENT)


def _distance_from_edge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the T around its middle: negative within one of its two rectangles, 0 also on the line between them."""
    across = np.abs(x)
    bar = np.maximum(across - np.float32(60), np.abs(y + np.float32(45)) - np.float32(15))
    stem = np.maximum(across - np.float32(15), np.abs(y - np.float32(15)) - np.float32(45))
    return np.minimum(bar, stem)


def _share(distance: np.ndarray, pixel: float) -> np.ndarray:
    """How much of a pixel lies within an edge at this distance from its middle."""
    return np.clip(0.5 - distance / pixel, 0, 1)
