"""Interrupts: what SIGTERM raises, and blocks of code at whose end Ctrl-C and SIGTERM wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM: whoever tidies up after Ctrl-C does so then, too."""


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait for the end of the block.

    Python raises what they mean in whatever runs next. After a long call into a library that is often one of its
    finalizers or callbacks, where exceptions are lost.

    >>> try:
    ...     with interrupts_later():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("this is done first")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    this is done first
    interrupted
    """
    if threading.current_thread() is not threading.main_thread():  # no signal is raised there
        yield
        return
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    came: list[tuple[int, FrameType | None]] = []
    try:
        for number, handler in usual.items():
            if callable(handler):
                signal.signal(number, lambda *what: came.append(what))
        yield
    finally:
        for number, handler in usual.items():
            if callable(handler):
                signal.signal(number, handler)
        for number, frame in came[:1]:
            handler = usual[signal.Signals(number)]
            assert callable(handler)
            handler(number, frame)
