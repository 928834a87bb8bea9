"""Cells in worker processes of this machine, one each."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import warnings
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, NamedTuple

from reachcost.base.devices import choose_device
from reachcost.base.machine import cores
from reachcost.errors import ReachcostError
from reachcost.results.records import Result
from reachcost.studies.cells.executor import Failure, Job
from reachcost.studies.cells.worker import Answer, Surroundings, serve

TRIES = 2
"""How often a cell is begun whose worker dies."""
PATIENCE = 2.0
"""Seconds that a worker has to end by itself."""


class _Worker(NamedTuple):
    process: Any
    connection: Connection


class Local:
    """Computes cells in worker processes; those that die are replaced, and their cell is tried once more.

    Args:
        out: The output directory; workers read it.
        scratch: A directory for what cells write meanwhile.
        workers: How many there are; by default one for each core. Threads are divided among them.
    """

    def __init__(self, out: Path, scratch: Path, workers: int | None = None) -> None:
        self.places = workers or cores()
        threads = max(1, cores() // self.places)
        self._surroundings = Surroundings(out.absolute(), scratch.absolute(), threads, choose_device("auto"))
        self._idle: list[_Worker] = []
        self._busy: dict[int, tuple[_Worker, Job]] = {}
        self._begun: dict[Path, int] = {}

    def begin(self, job: Job) -> None:
        """Hand a cell to a worker, a new one if all are busy."""
        try:
            order = pickle.dumps((job.order, job.cell.name))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ReachcostError(
                f"the study of {job.order.table} cannot be sent to another process ({error}): order its tables by a "
                "function at the top of a module that returns it"
            ) from error
        worker = self._idle.pop() if self._idle else self._start()
        self._busy[worker.process.pid] = worker, job
        self._begun[job.cell.path] = self._begun.get(job.cell.path, 0) + 1
        with suppress(OSError):  # it is dead, which `finish` will find out
            worker.connection.send_bytes(order)

    def finish(self) -> tuple[Job, Result | Failure]:
        """Wait for an answer, or for a worker that dies at its second try."""
        while True:
            worker, job = self._next()
            answer = _received(worker)
            if answer is not None:
                self._idle.append(worker)
                for text, category in answer.warned:
                    warnings.warn(text, category, stacklevel=2)
                return job, answer.outcome
            if self._begun[job.cell.path] == TRIES:
                return job, Failure(
                    f"its worker process died {TRIES} times (exit code {worker.process.exitcode}): memory may have run "
                    "out, take fewer --workers"
                )
            self.begin(job)

    def _next(self) -> tuple[_Worker, Job]:
        """The next worker that answered or died, and what it was computing."""
        events = {
            event: worker.process.pid
            for worker, _ in self._busy.values()
            for event in (worker.connection, worker.process.sentinel)
        }
        return self._busy.pop(events[wait([*events])[0]])

    def _start(self) -> _Worker:
        context = _context()
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self._surroundings))  # pyright: ignore[reportAttributeAccessIssue]
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def close(self) -> None:
        """End the workers, those that are computing by force: nothing of theirs is recorded."""
        for worker in self._idle:
            with suppress(OSError):
                worker.connection.send(None)
        for worker, _ in self._busy.values():
            worker.process.terminate()
        for worker in (*self._idle, *(worker for worker, _ in self._busy.values())):
            worker.process.join(PATIENCE)
            worker.process.kill()  # it may hang where no signal is heard
            worker.process.join()
            worker.connection.close()
        self._idle, self._busy = [], {}


def _context() -> BaseContext:
    """Makes processes that are no forks of this one: it has threads, which these would lack, and perhaps a GPU."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([serve.__module__])
    resource_tracker.ensure_running()  # it would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()  # it and its forks never hear Ctrl-C, which is for the driver
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _received(worker: _Worker) -> Answer | None:
    """What a worker answers; None if it is dead."""
    with suppress(EOFError, OSError):
        if worker.connection.poll():
            return worker.connection.recv()
    worker.process.join(PATIENCE)
    worker.connection.close()
    return None
