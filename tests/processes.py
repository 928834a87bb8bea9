"""Work for a process of its own, in a module that it imports quickly."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np


def holding(size: int, _: Path) -> Callable[[], object]:
    """So many megabytes."""
    held = np.ones(size * 2**20, np.uint8)
    return lambda: len(held)


def dying(_: int, __: Path) -> Callable[[], object]:
    return lambda: os._exit(9)
