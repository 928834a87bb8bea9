"""Where reachcost keeps what it can make again: in the directory that `REACHCOST_CACHE` names."""

from __future__ import annotations

import os
from pathlib import Path

from reachcost.errors import ReachcostError


def cache_directory(given: str | Path | None = None) -> Path:
    """The directory that is given, or that of the environment variable `REACHCOST_CACHE`, or `~/.cache/reachcost`."""
    try:
        return Path(given or os.environ.get("REACHCOST_CACHE") or "~/.cache/reachcost").expanduser()
    except RuntimeError as error:
        raise ReachcostError(
            "there is no home directory to keep latents in: name another in REACHCOST_CACHE, or pass cache=False"
        ) from error
