"""Work in a separate process, which may hang, crash or fill memory without harm to its caller."""

from __future__ import annotations

import importlib
import multiprocessing
import resource
import signal
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from reachcost.errors import ReachcostError

GROWTH = 2**30
"""Bytes of memory that one piece of work may add to its process."""


class Outcome(NamedTuple):
    """Outcome of a piece of work."""

    how: str
    """`returned`, `refused` (by one sentence), `raised` something else, `died` or `hung`."""
    what: Any
    """The returned value, or a description of the rest."""


class Isolated:
    """A process that does one piece of work after the other, and is replaced when it dies or hangs.

    Args:
        seconds: After which a piece of work counts as hanging.
        modules: What the process imports before the first one.
    """

    def __init__(self, seconds: float, *modules: str) -> None:
        self._seconds, self._modules = seconds, modules
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None

    def run(self, work: Callable[..., Any], *given: Any) -> Outcome:
        """Let the process do a piece of work; arguments and result are pickled."""
        if self._process is None:
            self._start()
        self._pipe.send((work, given))
        if not self._pipe.poll(self._seconds):
            self.close()
            return Outcome("hung", f"no end after {self._seconds:.0f} s")
        try:
            return self._pipe.recv()
        except EOFError:
            assert self._process is not None
            self._process.join()
            code = self._process.exitcode or 0
            self.close()
            return Outcome("died", signal.Signals(-code).name if code < 0 else f"exit code {code}")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(other, self._modules), daemon=True)
        self._process.start()
        other.close()
        self._pipe.recv()  # until it has imported everything, however long that takes


class Here:
    """Does the work in this process: for a few pieces that are known to do no harm."""

    def run(self, work: Callable[..., Any], *given: Any) -> Outcome:
        """Do a piece of work."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _tried(work, given)


def _serve(pipe: Connection, modules: tuple[str, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller handles it, and ends this process
    warnings.simplefilter("ignore")
    for module in modules:
        importlib.import_module(module)
    pipe.send("ready")
    while True:
        try:
            work, given = pipe.recv()
        except EOFError:
            return
        pipe.send(_tried(work, given))


def _tried(work: Callable[..., Any], given: tuple[Any, ...]) -> Outcome:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        outcome = Outcome("returned", work(*given))
    except ReachcostError as error:
        outcome = Outcome("refused", str(error))
    except BaseException as error:  # panics of other languages are not an Exception
        outcome = Outcome("raised", f"{type(error).__module__}.{type(error).__name__}: {str(error)[:200]}")
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return Outcome("raised", f"it took {grown / 2**20:.0f} MB of memory") if grown > GROWTH else outcome
