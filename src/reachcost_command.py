"""The `reachcost` command around its work: Ctrl-C in its first and last moments, and standard streams.

It stands outside of the package, since to import that takes a second, and whatever is interrupted meanwhile ends in a
traceback.
"""

from __future__ import annotations

import errno
import io
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


def main() -> int | str | None:
    """Import and run the command; returns what `sys.exit` takes."""
    listen()
    open_streams()
    try:
        from reachcost.cli import main as run
    except (ImportError, MemoryError, OSError) as error:
        if not ran_out(error):
            raise
        sys.stderr.write("reachcost: there is too little memory to begin: close other programs, or raise the limit\n")
        return 1
    try:
        code = run()
    except SystemExit as usage:
        code = usage.code
    finally:
        if signal.getsignal(signal.SIGINT) is end:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; the interpreter's last moments know no handler
    sys.stdout.flush()
    failed = getattr(sys.stdout, "failed", None)
    if failed is None or isinstance(failed, BrokenPipeError):  # a reader that has enough, as `head` does
        return code
    reason = f"standard output cannot be written ({failed.strerror or failed})"
    sys.stderr.write(f"reachcost: {reason}: send it elsewhere; what is saved is whole\n")
    return code or 1


class Stream(io.TextIOWrapper):
    """A standard stream that drops its text once it cannot be written, so that the work goes on."""

    failed: OSError | None = None
    """Why text was dropped."""

    def write(self, text: str, /) -> int:
        """Write text, or drop it."""
        try:
            return super().write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        try:
            super().flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        """Discard everything from now on, also what is buffered and what child processes write."""
        self.failed = error
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def open_streams() -> None:
    """Make standard streams usable: closed ones discard what is written, others never fail the work.

    Otherwise the first file that is opened takes the number of a closed stream, and receives what is written to it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # it was closed
            setattr(sys, name, Stream(os.fdopen(number, "wb", closefd=False), encoding="utf-8", errors="replace"))
        else:
            form = {key: getattr(stream, key) for key in ("encoding", "errors", "line_buffering", "write_through")}
            setattr(sys, name, Stream(stream.buffer, **form))


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
