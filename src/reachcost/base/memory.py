"""Memory that runs out: the many ways in which libraries say so, and what to ask before one that cannot."""

from __future__ import annotations

import errno
import mmap

WORDS = (
    "not enough memory",  # torch
    "can't allocate memory",
    "cannot allocate memory",
    "failed to map segment",  # a library that is loaded
    "cannot create shared object",
    "unable to allocate",  # numpy, HDF5
    "malloc of size",  # Arrow
    "out of memory",
    "bad_alloc",
    "can't start new thread",
    "memory allocation",
)


def require_memory(size: int) -> None:
    """Raise MemoryError if so many bytes cannot be had: now, where a library would crash for want of them."""
    try:
        mmap.mmap(-1, size).close()
    except OSError as error:
        raise MemoryError(f"{size} bytes") from error


def ran_out(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, says that there is no memory left.

    >>> ran_out(MemoryError()), ran_out(RuntimeError("DefaultCPUAllocator: not enough memory")), ran_out(ValueError())
    (True, True, False)
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        text = str(error).lower()
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(word in text for word in WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False
