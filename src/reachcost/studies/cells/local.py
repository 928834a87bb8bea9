"""Cells in worker processes of this machine, one each."""

from __future__ import annotations

import multiprocessing
import signal
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, NamedTuple

from reachcost.base.devices import choose_device
from reachcost.base.machine import cores
from reachcost.studies.cells.crew import Crew, Death
from reachcost.studies.cells.executor import Job
from reachcost.studies.cells.worker import Answer, Errand, Surroundings, pickled, serve

TRIES = 2
"""How often a cell is begun whose worker dies."""
PATIENCE = 2.0
"""Seconds that a worker has to end by itself."""


class _Worker(NamedTuple):
    process: Any
    connection: Connection


class Local(Crew[_Worker]):
    """Computes cells in worker processes; those that die are replaced, and their cell is tried once more.

    Args:
        out: The output directory; workers read it.
        scratch: A directory for what cells write meanwhile.
        workers: How many there are; by default one for each core. Threads are divided among them.
    """

    def __init__(self, out: Path, scratch: Path, workers: int | None = None) -> None:
        super().__init__()
        self._places = workers or cores()
        threads = max(1, cores() // self.places)
        self._surroundings = Surroundings(out.absolute(), scratch.absolute(), threads, choose_device("auto"))

    @property
    def places(self) -> int:
        """How many workers there are."""
        return self._places

    def _start(self) -> _Worker:
        context = _context()
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self._surroundings))  # pyright: ignore[reportAttributeAccessIssue]
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _send(self, worker: _Worker, job: Job, errand: Errand) -> None:
        with suppress(OSError):  # it is dead, which `_receive` will find out
            worker.connection.send_bytes(pickled(errand))

    def _receive(self) -> tuple[_Worker, Answer | Death]:
        events = {event: worker for worker in self._busy for event in (worker.connection, worker.process.sentinel)}
        worker = events[wait([*events])[0]]
        return worker, _received(worker)

    def close(self) -> None:
        """End the workers, those that are computing by force: nothing of theirs is recorded."""
        super().close()
        for worker in self._idle:
            with suppress(OSError):
                worker.connection.send(None)
        for worker in self._busy:
            worker.process.terminate()
        for worker in (*self._idle, *self._busy):
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


def _received(worker: _Worker) -> Answer | Death:
    """What a worker answers, or that it is dead."""
    with suppress(EOFError, OSError):
        if worker.connection.poll():
            return worker.connection.recv()
    worker.process.join(PATIENCE)
    worker.connection.close()
    exit_code = f" (exit code {worker.process.exitcode})"
    return Death("its worker process died", exit_code, "memory may have run out, take fewer --workers", TRIES)
