"""Rows of a batch, shared in order among worker processes; their number does not change the results."""

from __future__ import annotations

import multiprocessing
import os
import pickle
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
        self._finalize: Callable[[], object] | None = None

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
                self._send(worker, (method, *(column[share[0] : share[-1] + 1] for column in columns)))
            answers = [self._receive(worker, method) for worker in team]
        except BaseException:  # also an interrupt: the next call would read the answers of this one
            self.close()
            raise
        for answer in answers:
            if isinstance(answer, str):
                raise ReachcostError(answer)
        return tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))

    def close(self) -> None:
        """End the processes; the next call starts new ones."""
        if self._finalize is not None:
            self._finalize()
        self._local, self._team, self._finalize = None, [], None

    def _started(self) -> list[_Worker]:
        if self._owner != os.getpid():  # in a fork of their owner, which alone may use the workers
            self._team = []
        if not self._team:
            self._owner = os.getpid()
            self._finalize = weakref.finalize(self, _stop, self._team, self._owner)
            for _ in range(self._count):
                self._team.append(self._start())
        return self._team

    def _start(self) -> _Worker:
        # A fork copies any function. Other start methods pickle it.
        forks = "fork" in multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("fork" if forks else "spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(ours, theirs, self._make), daemon=True)  # pyright: ignore[reportAttributeAccessIssue]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which `_serve` does not use
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until `_serve` ignores it
            try:
                process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise ReachcostError(
                    f"{self._name}: its functions cannot be sent to a worker ({error}): define them at the top of a "
                    "module, or set workers=1"
                ) from error
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        return _Worker(process, ours)

    def _send(self, worker: _Worker, order: tuple[Any, ...]) -> None:
        try:
            worker.connection.send(order)
        except OSError as error:
            raise self._died(worker, order[0]) from error

    def _receive(self, worker: _Worker, method: str) -> Any:
        # Wait also for the end of the process: a grandchild may keep the pipe open.
        ready = wait([worker.connection, worker.process.sentinel])
        try:
            if worker.connection in ready or worker.connection.poll():
                return worker.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died(worker, method) from error
        raise self._died(worker, method)

    def _died(self, worker: _Worker, method: str) -> ReachcostError:
        worker.process.join(1)
        return ReachcostError(
            f"{self._name}: a worker process died during `{method}` (exit code {worker.process.exitcode}): check its "
            "memory, or set workers=1 to see the error"
        )


class _Worker(NamedTuple):
    process: Any
    connection: Connection


def _stop(team: list[_Worker], owner: int) -> None:
    if os.getpid() != owner:
        return
    for worker in team:
        with suppress(OSError):  # it may be dead
            worker.connection.send(None)
        worker.connection.close()
    for worker in team:
        worker.process.join(0.5)
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(0.5)
            worker.process.kill()  # foreign code may block SIGTERM
            worker.process.join()


def _serve(ours: Connection, connection: Connection, make: Callable[[], Any]) -> None:
    """Answer calls until None or the end of the connection; an answer of type str is an error message."""
    ours.close()  # otherwise this process would not notice the end of its owner
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the owner decides
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
                answer = str(error)
            except Exception as error:  # a foreign simulator may raise anything
                answer = f"{method} failed in a worker process ({type(error).__name__}: {error}): set workers=1"
            connection.send(answer)
    if worker is not None:
        worker.close()
