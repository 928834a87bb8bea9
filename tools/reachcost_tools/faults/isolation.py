"""Work in a separate process, which may hang, crash or fill memory without harm to its caller."""

import importlib
import multiprocessing
import os
import resource
import signal
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, NamedTuple

from reachcost.errors import ReachcostError

GROWTH = 2**30
"""Bytes of memory that one piece of work may add to its process."""


class Outcome(NamedTuple):
    """Outcome of a piece of work."""

    how: str
    """`returned`, `refused` (by a `ReachcostError`), `raised` something else, `died` or `hung`."""
    what: Any
    """The returned value, or a description of the rest."""

    def error(self) -> str:
        """What is wrong about it: right are a returned value, or a refusal in one line of a length that people read."""
        if self.how == "refused":
            readable = "\n" not in self.what and 20 < len(self.what) < 1000
            return "" if readable else f"no sentence: {self.what!r}"
        return "" if self.how == "returned" else f"{self.how}: {self.what}"


class Isolated:
    """A process that does one piece of work after the other, and is replaced when it dies or hangs.

    Args:
        seconds: Seconds after which a piece of work counts as hanging.
        modules: Modules that the process imports before the first piece.
    """

    def __init__(self, seconds: float, *modules: str) -> None:
        self._seconds, self._modules = seconds, modules
        self._pool: ProcessPoolExecutor | None = None
        self._pid = 0

    def run(self, work: Callable[..., Any], *given: Any) -> Outcome:
        """Let the process do a piece of work; arguments and result are pickled."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, initializer=_prepare, initargs=self._modules)
            self._pid = self._pool.submit(os.getpid).result()  # when it has imported everything
        try:
            return self._pool.submit(_tried, work, given).result(self._seconds)
        except TimeoutError:
            outcome = Outcome("hung", f"no end after {self._seconds:.0f} s")
        except BrokenProcessPool:
            outcome = Outcome("died", "the process ended")
        self.close()
        return outcome

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._pool.shutdown()
            self._pool = None


class Here:
    """Does the work in this process: for a few pieces that are known to do no harm."""

    def run(self, work: Callable[..., Any], *given: Any) -> Outcome:
        """Do a piece of work."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _tried(work, given)


def _prepare(*modules: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller handles it, and ends this process
    warnings.simplefilter("ignore")
    for module in modules:
        importlib.import_module(module)


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
