"""Encoded frames, decoded when they are read."""

from __future__ import annotations

import io
import math
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from reachcost.errors import ReachcostError

FORMATS = {b"\xff\xd8\xff": JpegImageFile, b"\x89PNG\r\n": PngImageFile}
"""Of images, by how they begin."""
LARGEST = 2**24
"""Pixels of a frame."""


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
        with _opened(blob) as image:  # its head alone
            if math.prod(image.size) > LARGEST:
                width, height = image.size
                raise ReachcostError(
                    f"{path}: a frame has {width:,} x {height:,} px: scale all frames to a few hundred"
                )
            return np.asarray(image.convert("RGB"))
    except ReachcostError:
        raise
    except Exception as error:  # a damaged image can raise anything
        raise ReachcostError(
            f"{path}: a frame is no whole JPEG or PNG image ({error}): copy or write the file again"
        ) from error


def _opened(blob: bytes) -> ImageFile.ImageFile:
    """An image of one of two formats: others can make the decoder call programs."""
    kind = next((kind for begin, kind in FORMATS.items() if isinstance(blob, bytes) and blob.startswith(begin)), None)
    if kind is None:
        raise ValueError("it begins like neither")
    return kind(io.BytesIO(blob))
