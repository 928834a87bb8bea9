"""Frozen functions of tensors without Python in between: recorded once for each shape, then replayed.

Small operations wait longer for Python than they compute, and threads wait for each other's. A recording is replayed
without Python's lock; it does the same operations in the same order, to the same bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

Function = Callable[..., Tensor]
CHECKED = 3
"""Times that a new recording is replayed and compared: torch rearranges it while it is replayed first."""
MOST = 64
"""Recordings of a function that are kept."""


class Traced:
    """A function whose weights do not change, recorded once for each `key` and shape of its arguments.

    Where it cannot be recorded, or a recording does not give the same bits, and wherever gradients are asked for, it is
    called as it is.

    >>> double = Traced()
    >>> with torch.no_grad():
    ...     found = double.recorded("x 2", lambda x: 2 * x, torch.ones(3))(torch.ones(3))
    >>> found
    tensor([2., 2., 2.])
    """

    def __init__(self) -> None:
        self._recordings: dict[Hashable, Function | None] = {}

    def __reduce__(self) -> tuple[type[Traced], tuple[()]]:
        return Traced, ()  # recordings cannot be copied, and a copy makes its own

    def recorded(self, key: Hashable, function: Function, *example: Tensor) -> Function:
        """What to call in place of the function, with arguments of the shapes of the example."""
        if not _replayable(example):
            return function
        of_shape = key, tuple((tensor.shape, tensor.dtype) for tensor in example)
        if of_shape not in self._recordings:
            if len(self._recordings) >= MOST:
                self._recordings.clear()
            self._recordings[of_shape] = _record(function, example)
        return self._recordings[of_shape] or function


def _replayable(example: tuple[Tensor, ...]) -> bool:
    """On a processor, without gradients, and with nothing else that looks at single operations."""
    watched = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch._C._len_torch_dispatch_stack()
    return not watched and all(tensor.device.type == "cpu" for tensor in example)


def _record(function: Function, example: tuple[Tensor, ...]) -> Function | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated, and shapes become constants, which are those of the key
        try:
            recording: Any = torch.jit.trace(function, example, check_trace=False)
        except (RuntimeError, AttributeError):  # no such thing in this version, or with these weights
            return None
    vars(recording).clear()  # the function itself, and with it the module, would never be given up
    expected = function(*example)
    same = all(torch.equal(recording(*example), expected) for _ in range(CHECKED))
    return recording if same else None
