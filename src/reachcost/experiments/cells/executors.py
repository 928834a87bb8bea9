"""What computes cells on this machine: this process, or a pool of worker processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, Protocol

from reachcost.core.devices import choose_device
from reachcost.core.files import cache_directory
from reachcost.core.machine import cores
from reachcost.errors import ReachcostError, reason_of
from reachcost.experiments.cells.cell import Cell
from reachcost.experiments.cells.worker import Answer, Worker
from reachcost.results.records import computed

DIED = "its worker process died {} times: memory may have run out, take fewer --workers"


class Executor(Protocol):
    """Computes cells; it records nothing."""

    tries: int
    """How often a cell is started whose worker dies."""

    @property
    def places(self) -> int:
        """How many cells are computed at a time."""
        ...

    def submit(self, cell: Cell) -> Future[Any]:
        """Start a cell whose needs are recorded."""
        ...

    def answer(self, future: Future[Any]) -> Answer | None:
        """What a finished cell came to; None if its worker died."""

    def close(self) -> None:
        """Stop whatever is being computed."""


Start = Callable[[Path, Path], Executor]
"""Makes an executor for cells whose needs are recorded below the first directory; it may write into the second."""


class InProcess:
    """Computes cells in this process, one after the other, with every thread there is.

    Args:
        out: The output directory, which cells know already.
        scratch: A directory for what cells write meanwhile.
    """

    places, tries = 1, 1

    def __init__(self, out: Path, scratch: Path) -> None:
        self._scratch = scratch

    def submit(self, cell: Cell) -> Future[Answer]:
        """Compute a cell."""
        future: Future[Answer] = Future()
        try:
            future.set_result(Answer(computed(cell.compute, self._scratch)))
        except Exception as error:  # other cells go on
            future.set_result(Answer(reason_of(error)))
        return future

    def answer(self, future: Future[Answer]) -> Answer:
        """What the cell came to."""
        return future.result()

    def close(self) -> None:
        """There is nothing to stop."""


class LocalPool:
    """Computes cells in worker processes of this machine.

    Every worker is a `ProcessPoolExecutor` of one process: if it dies, only its own cell is affected.

    Args:
        out: The output directory; workers read it.
        scratch: A directory for what cells write meanwhile.
        workers: Number of processes; by default one for each core. Threads are divided among them.
    """

    tries = 2

    def __init__(self, out: Path, scratch: Path, workers: int | None = None) -> None:
        self.places, self._context = workers or cores(), _context()
        # Workers end when the other end of this pipe is closed: by `close`, or because this process died.
        self._reader, self._lifeline = self._context.Pipe(duplex=False)
        threads = max(1, cores() // self.places)
        here = out.absolute(), scratch.absolute(), threads, choose_device("auto")
        self._arguments = str(cache_directory().absolute()), self._reader, *here
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[str], ProcessPoolExecutor] = {}

    def submit(self, cell: Cell) -> Future[str]:
        """Hand a cell to a worker."""
        job = pickled(cell)
        with _interrupts_blocked():  # a new process inherits that: Ctrl-C is for the driver
            while True:
                worker = self._idle.pop() if self._idle else self._start()
                try:
                    future = worker.submit(_compute, job)
                except BrokenExecutor:  # it died while it was idle
                    worker.shutdown()
                else:
                    self._busy[future] = worker
                    return future

    def answer(self, future: Future[str]) -> Answer | None:
        """What a finished cell came to."""
        worker = self._busy.pop(future)
        try:
            file = Path(future.result())
        except BrokenExecutor:
            worker.shutdown()
            return None
        except Exception as error:  # no room for the answer
            self._idle.append(worker)
            return Answer(reason_of(error))
        self._idle.append(worker)
        answer = pickle.loads(file.read_bytes())
        file.unlink()
        return answer

    def close(self) -> None:
        """End the workers at once: nothing that they compute is recorded."""
        self._lifeline.close()
        for worker in (*self._idle, *self._busy.values()):
            worker.shutdown(cancel_futures=True)
        self._reader.close()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, self._context, _start_worker, self._arguments)


def pickled(cell: Cell) -> bytes:
    """A cell as it is sent to another process."""
    try:
        return pickle.dumps(cell.job)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ReachcostError(
            f"{cell.name} cannot be sent to another process ({error}): let a function at the top of a module return "
            "the study, and let its runs hold plain values"
        ) from error


_worker: Worker | None = None
"""Of a worker process."""


def _start_worker(cache: str, lifeline: Connection, *here: Any) -> None:
    global _worker
    os.environ["REACHCOST_CACHE"] = cache
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    _worker = Worker(*here)


def _end_with(lifeline: Connection) -> None:
    lifeline.poll(None)
    os._exit(1)


def _compute(job: bytes) -> str:
    """The file with the answer: a pool waits forever for a worker that is killed while it sends a long one."""
    assert _worker is not None
    answer = _worker.compute(pickle.loads(job))
    with tempfile.NamedTemporaryFile(dir=_worker.scratch, delete=False) as file:
        pickle.dump(answer, file)
    return file.name


def _context() -> BaseContext:
    """Makes processes that are not forks of this one: it has threads, and perhaps a GPU."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with _interrupts_blocked():
        forkserver.ensure_running()
    return context


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    resource_tracker.ensure_running()  # it would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
