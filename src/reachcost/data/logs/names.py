"""What others call their columns, and what we do."""

from __future__ import annotations

from typing import Any

import numpy as np

WORLD = "world_idx"
"""Column that tells rows of different worlds apart, in logs of several: what stands still differs between them."""
STATES = ("state", "states", "observation", "observations", "obs")
NAMES = {
    **dict.fromkeys(STATES, "state"),
    "actions": "action",
    "rewards": "reward",
    **dict.fromkeys(("image", "images", "frames"), "pixels"),
}


def column_name(stored: str, values: Any) -> str:
    """Our name of a column; what is called an observation and looks like frames is `pixels`.

    >>> column_name("observations", np.zeros((5, 4))), column_name("obs", np.zeros((5, 8, 8, 3), np.uint8))
    ('state', 'pixels')
    """
    frames = values.dtype == np.uint8 and values.ndim == 4
    return "pixels" if stored in STATES and frames else NAMES.get(stored, stored)


def as_column(name: str, values: np.ndarray) -> np.ndarray:
    """One number a row is a column of size one where rows are vectors.

    >>> as_column("action", np.array([2, 0, 1])).shape
    (3, 1)
    """
    return values[:, None] if name in ("state", "action") and values.ndim == 1 else values
