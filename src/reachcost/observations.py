"""Columns that are made when they are read: a frame is large, and most models read few columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np


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
