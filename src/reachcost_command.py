"""The first and last moments of the `reachcost` command, in which nothing of it is there to hear Ctrl-C.

It stands outside of the package, since to import that takes a second, and whatever is interrupted meanwhile ends in a
traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""


def main() -> int:
    """Import and run the command."""
    listen()
    try:
        from reachcost.cli import main as run
    except (ImportError, MemoryError, OSError) as error:
        if not is_lack_of_memory(error):
            raise
        sys.stderr.write("reachcost: there is too little memory to begin: close other programs, or raise the limit\n")
        return 1
    return run()


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


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether that is what an error is about; libraries say so in several ways."""
    words = ("allocate memory", "not enough memory", "failed to map segment", "start new thread", "std::bad_alloc")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)
