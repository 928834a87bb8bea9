"""Rows of a batch, dealt out in order to worker processes that live on; the same results whatever their number."""

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
    """Makes one desk a process, and hands each its share of every batch in one message.

    Args:
        make: Makes a desk: an object whose methods take columns [N, ...] and return columns [N, ...], and `close`.
        count: Processes; 1 is this one, without any other.
        name: What error messages call the work.

    A worker that dies is reported, and the next call starts new ones. Whoever forgets `close` is cleaned up after: on
    garbage collection, at exit, and when this process is killed.

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
        self._desk: Any = None
        self._team: list[_Worker] = []
        self._owner = 0
        self._close: Callable[[], object] = _nothing

    def call(self, method: str, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Call a method of the desks on all rows, one or more, and return its columns, rows in their order."""
        if self._count == 1:
            return getattr(self._local(), method)(*columns)
        shares = [share for share in np.array_split(np.arange(len(columns[0])), self._count) if len(share)]
        try:
            team = self._started()[: len(shares)]
            for worker, share in zip(team, shares, strict=True):
                self._send(worker, (method, *(column[share[0] : share[-1] + 1] for column in columns)))
            answers = [self._receive(worker, method) for worker in team]
        except BaseException:  # also an interrupt: answers that nobody waited for would be taken for those of the next
            self.close()
            raise
        for answer in answers:
            if isinstance(answer, str):
                raise ReachcostError(answer)
        return tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))

    def close(self) -> None:
        """End the processes; the next call starts new ones."""
        self._close()
        self._desk, self._team, self._close = None, [], _nothing

    def _local(self) -> Any:
        if self._desk is None:
            self._desk = self._make()
            self._close = weakref.finalize(self, self._desk.close)
        return self._desk

    def _started(self) -> list[_Worker]:
        if self._owner != os.getpid():  # a fork of its owner, whose workers answer to the owner alone
            self._team = []
        if not self._team:
            self._owner = os.getpid()
            self._close = weakref.finalize(self, _stop, self._team, self._owner)
            for _ in range(self._count):
                self._team.append(self._start())
        return self._team

    def _start(self) -> _Worker:
        # A fork takes any function along. Elsewhere they are pickled.
        forks = "fork" in multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("fork" if forks else "spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(ours, theirs, self._make), daemon=True)  # pyright: ignore[reportAttributeAccessIssue]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that threads are not taken along: see `_serve`
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # its first moments, too
            try:
                process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise ReachcostError(
                    f"{self._name}: its functions cannot be sent to a worker ({error}): define them at the top of a "
                    "module, or take workers=1"
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
        # Also wait for its end: a grandchild may hold its side of the pipe open.
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
            f"{self._name}: a worker process died during `{method}` (exit code {worker.process.exitcode}): memory may "
            "have run out, or the simulator crashed; take workers=1 to see what it says"
        )


class _Worker(NamedTuple):
    process: Any
    connection: Connection


def _nothing() -> None:
    pass


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
            worker.process.kill()  # it may hang where no signal is heard
            worker.process.join()


def _serve(ours: Connection, connection: Connection, make: Callable[[], Any]) -> None:
    """Answer orders until None comes or the other side is gone; a str is an error message."""
    ours.close()  # a fork holds both sides, and would never see that the other one is gone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the owner decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not what a fork inherits
    os.environ["OMP_NUM_THREADS"] = "1"  # to a torch that is loaded here
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)  # a fork would wait for ever for threads that its owner has and it has not
    desk: Any = None
    while True:
        try:
            order = connection.recv()
        except (EOFError, OSError):
            break
        if order is None:
            break
        method, *columns = order
        try:
            desk = make() if desk is None else desk
            answer = getattr(desk, method)(*columns)
        except ReachcostError as error:
            answer = str(error)
        except Exception as error:  # a foreign simulator may raise anything
            answer = f"{method} failed in a worker process ({type(error).__name__}: {error}): take workers=1 to see it"
        try:
            connection.send(answer)
        except OSError:
            break
    if desk is not None:
        desk.close()
