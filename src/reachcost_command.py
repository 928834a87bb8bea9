"""Start of the `reachcost` command: Ctrl-C before and after its work, and standard streams.

It is outside of the package, as importing the package takes a second in which Ctrl-C would print a traceback.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended."""
MESSAGES = (
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
"""Error messages of libraries without memory."""


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
            # The command is done, and the interpreter removes handlers at its end.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    failed = getattr(sys.stdout, "failed", None)
    if failed is None or isinstance(failed, BrokenPipeError):  # a reader that stops early, such as `head`
        return code
    reason = f"standard output cannot be written ({failed.strerror or failed})"
    sys.stderr.write(f"reachcost: {reason}: redirect it; saved files are complete\n")
    return code or 1


class Stream(io.TextIOWrapper):
    """A standard stream that drops text after a write error, so that the command continues."""

    failed: OSError | None = None
    """The first write error."""

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
        """Discard everything from now on, also buffered text and output of child processes."""
        self.failed = error
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def open_streams() -> None:
    """Make standard streams discard text that they cannot write.

    Without this, the first file that is opened gets the number of a closed stream, and receives its text.
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
    """End at once on Ctrl-C, unless the signal is ignored, as for background jobs of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def end(number: int, frame: FrameType | None) -> None:
    """Print a line and end without cleanup."""
    try:
        os.write(2, b"reachcost: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def ran_out(error: BaseException | None) -> bool:
    """Whether an error or one of its causes reports that memory ran out.

    >>> ran_out(MemoryError()), ran_out(RuntimeError("DefaultCPUAllocator: not enough memory")), ran_out(ValueError())
    (True, True, False)
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(message in str(error).lower() for message in MESSAGES):
            return True
        error = error.__cause__ or error.__context__
    return False
