"""Rows of a batch, shared in order among worker processes; their number does not change the results."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import numpy as np

from reachcost.errors import ReachcostError


class Workers:
    """`count` processes with one object of `make` each; a call shares its rows among them. 1 is this process.

    The objects have `close`, and methods that take and return columns [N, ...]. A dead worker is reported, and the next
    call starts new ones. Without `close` workers end on garbage collection, at exit, and when this process is killed.

    >>> class Adder:
    ...     def add(self, left, right):
    ...         return (left + right,)
    ...     def close(self):
    ...         pass
    >>> workers = Workers(Adder, 2, "sums")
    >>> workers.call("add", np.arange(3), np.ones(3, int))[0].tolist()
    [1, 2, 3]
    >>> workers.close()
    """

    def __init__(self, make: Callable[[], Any], count: int, name: str) -> None:
        if count < 1:
            raise ReachcostError(f"{name}: {count} workers do nothing: give one or more")
        self._make, self._count, self._name = make, count, name
        self._local: Any = None
        self._team: list[_Worker] = []
        self._owner = 0
        self._finalize: Callable[[], object] = lambda: None

    def call(self, method: str, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Call a method on all rows, at least one, and return its columns with rows in the same order."""
        if self._count == 1:
            if self._local is None:
                self._local = self._make()
                self._finalize = weakref.finalize(self, self._local.close)
            return getattr(self._local, method)(*columns)
        shares = [share for share in np.array_split(np.arange(len(columns[0])), self._count) if len(share)]
        try:
            team = self._started()[: len(shares)]
            for worker, share in zip(team, shares, strict=True):
                with suppress(OSError):  # it died, which `_receive` reports
                    worker.connection.send((method, *(column[share[0] : share[-1] + 1] for column in columns)))
            answers = [self._receive(worker, method) for worker in team]
        except BaseException:  # also an interrupt: the next call would read the answers of this one
            self.close()
            raise
        for answer in answers:
            if isinstance(answer, ReachcostError):
                raise answer
        return tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))

    def close(self) -> None:
        """End the processes; the next call starts new ones."""
        self._finalize()
        self._local, self._team = None, []

    def _started(self) -> list[_Worker]:
        if not self._team or self._owner != os.getpid():  # only their owner, and no fork of it, may use the workers
            self._team, self._owner = [], os.getpid()
            self._finalize = weakref.finalize(self, _stop, self._team, self._owner)
            for _ in range(self._count):
                self._team.append(_start(self._make))
        return self._team

    def _receive(self, worker: _Worker, method: str) -> Any:
        # Wait also for the end of the process: a grandchild may keep the pipe open.
        with suppress(EOFError, OSError):
            if worker.connection in wait([worker.connection, worker.process.sentinel]) or worker.connection.poll():
                return worker.connection.recv()
        worker.process.join(1)
        died = f"a worker process died during `{method}` (exit code {worker.process.exitcode})"
        raise ReachcostError(f"{self._name}: {died}: check its memory, or set workers=1 to see the error")


class _Worker(NamedTuple):
    process: Any
    connection: Connection


def _start(make: Callable[[], Any]) -> _Worker:
    context = multiprocessing.get_context("fork")  # other start methods would pickle the user's functions
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(ours, theirs, make), daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until `_serve` ignores it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which `_serve` does not use
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return _Worker(process, ours)


def _stop(team: list[_Worker], owner: int) -> None:
    if os.getpid() != owner:
        return
    for worker in team:
        with suppress(OSError):  # it may be dead
            worker.connection.send(None)
        worker.connection.close()
    for worker in team:
        worker.process.join(0.5)
        worker.process.kill()  # foreign code may block SIGTERM
        worker.process.join()


def _serve(ours: Connection, connection: Connection, make: Callable[[], Any]) -> None:
    """Answer calls with columns or an error, until None or the end of the connection."""
    ours.close()  # otherwise this process would not notice the end of its owner
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the entire group, and the owner decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork inherits the owner's handler
    os.environ["OMP_NUM_THREADS"] = "1"  # for a torch that is imported here
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)  # a fork would wait forever for threads of its owner
    worker: Any = None
    with suppress(EOFError, OSError):
        while (order := connection.recv()) is not None:
            method, *columns = order
            try:
                worker = make() if worker is None else worker
                answer = getattr(worker, method)(*columns)
            except ReachcostError as error:
                answer = ReachcostError(*error.args)
            except Exception as error:  # foreign code may raise anything
                failed = f"{method} failed in a worker process ({type(error).__name__}: {error})"
                answer = ReachcostError(f"{failed}: set workers=1 to see the error")
            connection.send(answer)
    if worker is not None:
        worker.close()
