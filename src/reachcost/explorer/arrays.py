"""Arrays for a page, as text: a number takes a byte or four there, not the twenty of its digits."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from reachcost.costs.oracle import NO_WAY
from reachcost.tasks.contract import Plane

MOST = 65_535


def packed(array: np.ndarray) -> dict[str, Any]:
    """An array of float32, uint16 or uint8, in the order of its rows.

    >>> packed(np.uint8([[1, 2]]))
    {'kind': 'uint8', 'shape': [1, 2], 'data': 'AQI='}
    """
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"kind": str(array.dtype), "shape": list(array.shape), "data": base64.b64encode(data.data).decode()}


def packed_places(plane: Plane, places: np.ndarray) -> dict[str, Any]:
    """Places [..., 2] of a plane, by their share of the way from its low to its high corner, uint16."""
    low, high = np.array(plane.low, float), np.array(plane.high, float)
    share = np.clip((places - low) / (high - low), 0, 1)
    return packed(np.rint(MOST * share).astype(np.uint16))


def packed_costs(costs: np.ndarray) -> dict[str, Any]:
    """Costs as they can be drawn, float32: where no way leads to the goal, the largest of the others stands."""
    ways = costs[costs < NO_WAY]
    return packed((np.minimum(costs, ways.max()) if ways.size else costs).astype(np.float32))
