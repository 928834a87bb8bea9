"""Observations: columns that are computed when they are read, and frames that are resized or decoded."""

from __future__ import annotations

import io
import math
from abc import abstractmethod
from collections import UserDict
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from reachcost.errors import ReachcostError, foreign_errors


class LazyColumns(UserDict[str, Any]):
    """A mapping of column names to arrays, or to functions that return arrays."""

    def __getitem__(self, column: str) -> np.ndarray:
        source = self.data[column]
        return source if isinstance(source, np.ndarray) else source()


def frames_of_size(observations: Mapping[str, np.ndarray], size: int) -> np.ndarray:
    """Frames uint8 [N, size, size, 3]: the column `pixels_<size>` if there is one, else `pixels`, resized by area.

    >>> frames_of_size({"pixels": np.zeros((2, 224, 224, 3), np.uint8)}, 64).shape
    (2, 64, 64, 3)
    """
    name = f"pixels_{size}"
    pixels = np.asarray(observations[name if name in observations else "pixels"])
    if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.dtype != np.uint8:
        raise ReachcostError(
            f"pixels are {pixels.dtype} {pixels.shape}: give uint8 [N, height, width, 3] with colours last"
        )
    if pixels.shape[1:3] == (size, size):
        return pixels
    if min(pixels.shape[1:3]) < size:
        raise ReachcostError(f"frames of {pixels.shape[1]} x {pixels.shape[2]} px: the model reads {size} px or more")
    rows, columns = area_weights(size, pixels.shape[1]), area_weights(size, pixels.shape[2])
    small = np.einsum("ih,nhwc,jw->nijc", rows, pixels.astype(np.float32), columns, optimize=True)
    return np.ascontiguousarray(np.rint(small), np.uint8)


@lru_cache(maxsize=16)
def area_weights(size: int, full: int) -> np.ndarray:
    """Matrix float32 [size, full] that resizes a line of pixels: each new pixel is the mean of what it covers."""
    edges = np.arange(size + 1) * full / size
    left, right = edges[:-1, None], edges[1:, None]
    pixel = np.arange(full)[None, :]
    covered = np.clip(np.minimum(right, pixel + 1) - np.maximum(left, pixel), 0, None)
    weights = (covered * size / full).astype(np.float32)
    weights.setflags(write=False)
    return weights


FORMATS = {b"\xff\xd8\xff": JpegImageFile, b"\x89PNG\r\n": PngImageFile}
"""Image formats by their first bytes. Other formats are refused: they can make the decoder start programs."""
LARGEST = 2**24
"""Maximum number of pixels of a frame."""


class LazyFrames:
    """Frames [R, height, width, 3] that are read by slices or row numbers; a format implements `read`."""

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
        for frame in frames:
            if frame.shape != self.shape[1:]:
                raise ReachcostError(f"a frame is {frame.shape}, the first {self.shape[1:]}: resize all to one size")
        return np.stack(frames) if np.ndim(wanted) else frames[0]

    @abstractmethod
    def read(self, numbers: np.ndarray) -> list[np.ndarray]:
        """The frames of rows [N], at least one, each uint8 [height, width, 3]."""


def decode_frame(path: Path, blob: bytes) -> np.ndarray:
    """The frame uint8 [height, width, 3] in the bytes of an image."""
    with foreign_errors(f"{path}: a frame is not a complete JPEG or PNG image", "write it again"):
        kind = next((kind for magic, kind in FORMATS.items() if blob.startswith(magic)), None)
        if kind is None:
            raise ValueError("unknown first bytes")
        with kind(io.BytesIO(blob)) as image:  # reads only the header
            if math.prod(image.size) > LARGEST:
                width, height = image.size
                raise ReachcostError(f"{path}: a frame has {width:,} x {height:,} px: resize it to a few hundred")
            return np.asarray(image.convert("RGB"))
