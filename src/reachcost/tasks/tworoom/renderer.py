"""Renders batches of TwoRoom states at any resolution, as the public environment does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from reachcost.data.observations import area_weights
from reachcost.errors import ReachcostError
from reachcost.tasks.tworoom.layout import BORDER, CENTRE, SIZE, Layout

BORDER_LINE = 4
CHUNK = 16  # frames that are computed together, few enough for the processor's cache
VISIBLE_RADII = 5.9  # radii from the agent's centre beyond which its Gaussian changes no pixel


@lru_cache(maxsize=2048)
def background(layout: Layout, size: int = SIZE) -> np.ndarray:
    """The empty rooms, float32 [size, size, 3], white with black walls; averaged at lower resolutions."""
    along = np.arange(SIZE)
    stripe = np.abs(along - CENTRE) <= layout.half
    wall = stripe[None, :] & ~layout.in_door(along)[:, None]
    wall = wall if layout.wall == "vertical" else wall.T
    line = np.zeros(SIZE, bool)
    line[BORDER - BORDER_LINE : BORDER] = line[SIZE - BORDER : SIZE - BORDER + BORDER_LINE] = True
    grey = np.where(wall | line[None, :] | line[:, None], 0.0, 255.0)
    weights = area_weights(size, SIZE).astype(np.float64)
    grey = weights @ grey @ weights.T
    return np.broadcast_to(grey.astype(np.float32)[..., None], (size, size, 3))


def render(layout: Layout, states: np.ndarray, size: int = SIZE) -> np.ndarray:
    """Render states [N, 2] as uint8 [N, size, size, 3]: a red Gaussian dot in the empty rooms."""
    return render_each([layout], np.zeros(len(states), np.int64), states, size)


def render_each(layouts: Sequence[Layout], which: np.ndarray, states: np.ndarray, size: int = SIZE) -> np.ndarray:
    """Render states [N, 2], each in the layout of that number [N]; all agents have one radius."""
    if not 8 <= size <= SIZE:
        raise ReachcostError(f"cannot render frames of {size} px: choose 8 to {SIZE}")
    states = np.asarray(states, np.float32)
    if states.ndim != 2 or states.shape[1] != 2:
        raise ReachcostError(f"TwoRoom cannot render states {states.shape}: give [N, 2]")
    if (outside := ~((states >= 0) & (states <= SIZE)).all(1)).any():
        row = int(outside.argmax())
        raise ReachcostError(f"state {row} is {states[row].tolist()}: give positions from 0 to {SIZE}")
    rooms = np.stack([background(layout, size)[..., 0] for layout in layouts])
    scale, radius = size / SIZE, layouts[0].radius
    reach = int(np.ceil(VISIBLE_RADII * radius * scale))
    width = min(size, 2 * reach + 1)
    centres = (states + np.float32(0.5)) * np.float32(scale) - np.float32(0.5)
    corner = np.clip(np.rint(centres).astype(np.int64) - reach, 0, size - width)
    frames = np.repeat(rooms.astype(np.uint8)[..., None], 3, axis=3)[which]  # copying entire pixels is fast
    patches = np.lib.stride_tricks.sliding_window_view(rooms, (width, width), axis=(1, 2))
    deviation = np.float32(radius * scale)
    for start in range(0, len(centres), CHUNK):
        part = slice(start, start + CHUNK)
        alpha = _dot(centres[part], corner[part], width, deviation)
        faded = patches[which[part], corner[part, 1], corner[part, 0]] * (1 - alpha)
        red, others = (faded + np.float32(255) * alpha).astype(np.uint8), faded.astype(np.uint8)
        for frame, (x, y), first, rest in zip(frames[part], corner[part].tolist(), red, others, strict=True):
            patch = frame[y : y + width, x : x + width]
            patch[..., 0], patch[..., 1], patch[..., 2] = first, rest, rest
    return frames


def _dot(centres: np.ndarray, corner: np.ndarray, width: int, deviation: np.float32) -> np.ndarray:
    """Gaussian of peak 1 around each centre [n, 2], on the patch at its corner: float32 [n, width, width]."""
    offsets = np.arange(width, dtype=np.float32)
    factors = []
    for axis in (0, 1):
        distance = corner[:, axis, None].astype(np.float32) + offsets - centres[:, axis, None]
        factor = np.exp(-(distance**2) / (2 * deviation**2))
        factors.append(factor / factor.max(1, keepdims=True))
    return factors[1][:, :, None] * factors[0][:, None, :]
