"""Frames as small pictures that a page can hold."""

from __future__ import annotations

import base64
from io import BytesIO
from math import ceil, sqrt

import numpy as np
from PIL import Image

from reachcost.protocols import Observations
from reachcost.report.scene import Strip
from reachcost.tasks.contract import Task

SIDE = 112
"""Pixels of the longer side of a frame."""
COLOURS = 256
"""Maximum number of colours of a PNG."""


def rendered(task: Task, states: np.ndarray) -> np.ndarray | None:
    """Frames of states, uint8 [N, height, width, 3], from `render` or else from the observations; None if neither."""
    return frames_of({"pixels": task.render(states)} if task.offers("render") else task.observe(states))


def frames_of(observations: Observations) -> np.ndarray | None:
    """The frames among observations, or None."""
    pixels = np.asarray(observations.get("pixels", ()))
    return pixels if pixels.dtype == np.uint8 and pixels.ndim == 4 and pixels.shape[3] == 3 else None


def frame_strip(frames: np.ndarray, side: int = SIDE) -> Strip:
    """Frames uint8 [N, height, width, 3] as one picture: the smaller of a PNG and a JPEG.

    >>> frame_strip(np.zeros((5, 224, 112, 3), np.uint8)).columns
    3
    """
    scale = min(1.0, side / max(frames.shape[1:3]))
    height, width = (max(1, round(scale * pixels)) for pixels in frames.shape[1:3])
    columns = ceil(sqrt(len(frames)))
    sheet = Image.new("RGB", (columns * width, ceil(len(frames) / columns) * height))
    for number, frame in enumerate(frames):
        small = Image.fromarray(frame).resize((width, height), Image.Resampling.BOX)
        sheet.paste(small, (number % columns * width, number // columns * height))
    exact = _encoded(sheet.quantize(COLOURS), "png")
    photo = _encoded(sheet, "jpeg", quality=85)
    image = f"png;base64,{exact}" if len(exact) <= len(photo) else f"jpeg;base64,{photo}"
    return Strip(f"data:image/{image}", len(frames), columns)


def _encoded(image: Image.Image, kind: str, **options: object) -> str:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return base64.b64encode(buffer.getvalue()).decode()
