"""Encoded frames, decoded when they are read."""

from __future__ import annotations

import io
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.errors import ReachcostError

FORMATS = ("JPEG", "PNG")
"""Of images; others can make the decoder call programs."""


class LazyFrames:
    """Frames [R, height, width, 3] that are read by slices or row numbers; a format says how."""

    dtype = np.dtype(np.uint8)
    ndim = 4
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        wanted = np.arange(len(self))[rows]
        numbers = np.atleast_1d(wanted)
        if not len(numbers):
            return np.empty((0, *self.shape[1:]), np.uint8)
        frames = self.read(numbers)
        return frames if np.ndim(wanted) else frames[0]

    def of_one_size(self, frames: list[np.ndarray]) -> np.ndarray:
        """Frames as one array, if all are as large as the first one of the logs."""
        for frame in frames:
            if frame.shape != self.shape[1:]:
                raise ReachcostError(
                    f"a frame is {frame.shape}, the first one {self.shape[1:]}: scale all frames to one size"
                )
        return np.stack(frames)

    @abstractmethod
    def read(self, numbers: np.ndarray) -> np.ndarray:
        """The frames of some rows [N], one or more: uint8 [N, height, width, 3]."""


def decode_frame(path: Path, blob: bytes) -> np.ndarray:
    """The frame uint8 [height, width, 3] in the bytes of an image."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ReachcostError(f"{path} holds images: pip install 'reachcost[swm]' to read them") from error
    try:
        with Image.open(io.BytesIO(blob), formats=FORMATS) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, TypeError, Image.DecompressionBombError) as error:
        raise ReachcostError(f"{path}: a frame is no whole {' or '.join(FORMATS)} image ({error})") from error
