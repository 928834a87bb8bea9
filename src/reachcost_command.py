"""The first and last moments of the `reachcost` command, in which nothing of it is there to hear Ctrl-C.

It stands outside of the package, since to import that takes a second, and whatever is interrupted meanwhile ends in a
traceback.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""
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
"""What libraries say when memory runs out."""


def main() -> int:
    """Import and run the command."""
    listen()
    try:
        from reachcost.cli import main as run
    except (ImportError, MemoryError, OSError) as error:
        if not ran_out(error):
            raise
        sys.stderr.write("reachcost: there is too little memory to begin: close other programs, or raise the limit\n")
        return 1
    try:
        return run()
    finally:
        if signal.getsignal(signal.SIGINT) is end:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; the interpreter's last moments know no handler


def listen() -> None:
    """End at once when Ctrl-C comes, unless nobody is to hear it: what a shell starts in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def end(number: int, frame: FrameType | None) -> None:
    """Say so and end, without a look at what is half imported or half torn down."""
    try:
        os.write(2, b"reachcost: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def ran_out(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, says that there is no memory left.

    >>> ran_out(MemoryError()), ran_out(RuntimeError("DefaultCPUAllocator: not enough memory")), ran_out(ValueError())
    (True, True, False)
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(word in str(error).lower() for word in WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False
