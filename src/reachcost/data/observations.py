"""What a world model may read of a state: columns that are made when they are read, and frames of a wanted size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import numpy as np

from reachcost.errors import ReachcostError


class LazyColumns(Mapping[str, np.ndarray]):
    """A mapping of column names to arrays, or to functions that make them.

    >>> columns = LazyColumns({"state": np.zeros((3, 2)), "pixels": lambda: np.zeros((3, 8, 8, 3))})
    >>> "pixels" in columns, columns["pixels"].shape
    (True, (3, 8, 8, 3))
    """

    def __init__(self, sources: Mapping[str, np.ndarray | Callable[[], np.ndarray]]) -> None:
        self._sources = dict(sources)

    def __getitem__(self, column: str) -> np.ndarray:
        source = self._sources[column]
        return source if isinstance(source, np.ndarray) else source()

    def __contains__(self, column: object) -> bool:
        return column in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def frames(observations: Mapping[str, np.ndarray], size: int) -> np.ndarray:
    """Read frames of `size` pixels: uint8 [N, size, size, 3].

    A task that can draw at that size offers a column `pixels_<size>`. Otherwise `pixels` are shrunk, each new pixel the
    mean of the area it covers.

    >>> frames({"pixels": np.zeros((2, 224, 224, 3), np.uint8)}, 64).shape
    (2, 64, 64, 3)
    """
    drawn = f"pixels_{size}"
    pixels = np.asarray(observations[drawn if drawn in observations else "pixels"])
    if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.dtype != np.uint8:
        raise ReachcostError(
            f"pixels are {pixels.dtype} {pixels.shape}: give uint8 [N, height, width, 3], values 0 to 255, colours last"
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
    """Matrix float32 [size, full] that shrinks a line of pixels: each new pixel is the mean of what it covers."""
    edges = np.arange(size + 1) * full / size
    left, right = edges[:-1, None], edges[1:, None]
    pixel = np.arange(full)[None, :]
    covered = np.clip(np.minimum(right, pixel + 1) - np.maximum(left, pixel), 0, None)
    weights = (covered * size / full).astype(np.float32)
    weights.setflags(write=False)
    return weights
