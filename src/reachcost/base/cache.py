"""Where reachcost keeps what it can make again: in the directory that `REACHCOST_CACHE` names."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """The directory of the environment variable `REACHCOST_CACHE`, by default `~/.cache/reachcost`."""
    return Path(os.environ.get("REACHCOST_CACHE") or Path.home() / ".cache" / "reachcost")
