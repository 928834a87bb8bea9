"""How much fits into memory, asked before it is filled."""

from __future__ import annotations

import mmap
import os
import resource
from pathlib import Path

from reachcost.errors import ReachcostError

PAGE = os.sysconf("SC_PAGE_SIZE")


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse what this machine has no memory for.

    >>> require_memory(2**60, "an array", "cut it into parts")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: an array needs 1,073,741,824.0 GB of memory, more than there is: cut it into parts
    """
    if needed > available():
        raise ReachcostError(f"{what} needs {needed / 2**30:,.1f} GB of memory, more than there is: {remedy}")


def available() -> int:
    """Bytes that this process may still use, as far as the system tells."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    try:
        told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = 1024 * int(told["MemAvailable"].split()[0])
        used = PAGE * int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, LookupError):  # another system, where all of it has to do
        return PAGE * os.sysconf("SC_PHYS_PAGES")
    return free if limit == resource.RLIM_INFINITY else min(free, max(0, limit - used))


def try_memory(size: int) -> None:
    """Raise MemoryError if so many bytes cannot be had: now, where a library would crash for want of them."""
    try:
        mmap.mmap(-1, size).close()
    except OSError as error:
        raise MemoryError(f"{size} bytes") from error
