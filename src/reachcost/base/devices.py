"""Where networks compute."""

from __future__ import annotations

import torch

from reachcost.errors import ReachcostError


def choose_device(name: str) -> str:
    """Return the device of that name, or a GPU if there is one for `auto`; refuse one that is not there.

    >>> choose_device("cpu")
    'cpu'
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ReachcostError(f"there is no device {name!r} here ({str(error).splitlines()[0]}): use cpu") from error
    return name
