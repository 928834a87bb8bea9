"""Executors compute cells: this process, or a pool of worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, NamedTuple

import torch

from reachcost.core.devices import choose_device, use_device
from reachcost.core.files import cache_directory
from reachcost.core.machine import cores
from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError, reason_of
from reachcost.experiments.cells import Cell, Job, StudyRef
from reachcost.experiments.experiment import Experiment, Recording
from reachcost.experiments.study import Study
from reachcost.results.records import Result, computed, differences

DIED = "its worker process died {} times: memory may have run out, take fewer --workers"


class Answer(NamedTuple):
    """The result of a cell, or why there is none."""

    outcome: Result | str
    warned: Sequence[tuple[str, type[Warning]]] = ()
    """Warnings for the user."""


class Recordings:
    """Studies below one output directory, each built once, so that its tables share logs, models and latents.

    Args:
        out: The output directory.
        progress: Shows the progress of cells that are computed in this process.
        shared: A directory for logs that several processes read.
    """

    def __init__(self, out: Path, progress: Progress, shared: Path | None = None) -> None:
        self._out, self._progress, self._shared = out, progress, shared
        self._built: dict[StudyRef, Recording] = {}

    def of(self, reference: StudyRef) -> Recording:
        """Return the recording of a study, in which only declared runs can be read."""
        base = reference._replace(variants=())
        if base not in self._built:
            study, given = base.study(*base.given), (self._out, self._progress, base.episodes)
            recording = Experiment(study, *given) if isinstance(study, Study) else Recording(study, *given)
            recording.reference, recording.shared, recording.recorder.computes = base, self._shared, False
            self._built[base] = recording
        recording = self._built[base]
        for make, given in reference.variants:
            recording = recording.derive(make, *given)
        return recording


class Worker:
    """Computes cells in one process, and records nothing.

    Args:
        out: The output directory, from which cells read the runs that they need.
        scratch: A directory for temporary files of cells, and for logs that workers share.
        threads: Threads of torch; no result depends on their number.
        device: Where networks compute.
    """

    def __init__(self, out: Path, scratch: Path, threads: int, device: str) -> None:
        self.scratch, self._recordings = scratch, Recordings(out, Progress(), shared=scratch)
        torch.set_num_threads(threads)
        use_device(device)

    def compute(self, job: Job) -> Answer:
        """Compute a cell; an error becomes a sentence, as errors of other packages may not be picklable."""
        with warnings.catch_warnings(record=True) as caught:
            try:
                reference, spec, config = job
                cell = self._recordings.of(reference).cell(spec)
                for where, expected, found in differences(config, cell.config):
                    raise ReachcostError(
                        f"{cell.name} would be another run in a worker ({where} is {found!r} there and {expected!r} in "
                        "the driver): let nothing change while it runs, and let the study declare the same runs each "
                        "time"
                    )
                outcome = computed(cell.compute, self.scratch)
            except Exception as error:  # other cells go on
                outcome = reason_of(error)
        return Answer(outcome, [(str(one.message), one.category) for one in caught])


class Executor:
    """Computes cells in this process, one after the other; subclasses compute them elsewhere. It records nothing.

    Args:
        out: The output directory.
        scratch: A directory for temporary files.
    """

    places = 1
    """Number of cells that are computed at a time."""
    tries = 1
    """How often a cell is started whose worker dies."""

    def __init__(self, out: Path, scratch: Path) -> None:
        self._out, self._scratch = out, scratch

    def submit(self, cell: Cell) -> Future[Any]:
        """Start a cell whose needs are recorded."""
        future: Future[Answer] = Future()
        try:
            future.set_result(Answer(computed(cell.compute, self._scratch)))
        except Exception as error:  # other cells go on
            future.set_result(Answer(reason_of(error)))
        return future

    def answer(self, future: Future[Any]) -> Answer | None:
        """Return the answer of a finished cell, or None if its worker died."""
        return future.result()

    def close(self) -> None:
        """Stop all cells."""


Start = Callable[[Path, Path], Executor]
"""Makes an executor, from the output directory and a directory for temporary files."""


class LocalPool(Executor):
    """Computes cells in worker processes of this machine.

    Every worker is a `ProcessPoolExecutor` of one process: if it dies, only its own cell is affected.

    Args:
        out: The output directory, which workers read.
        scratch: A directory for temporary files.
        workers: Number of processes; by default one for each core. Threads are divided among them.
    """

    tries = 2

    def __init__(self, out: Path, scratch: Path, workers: int | None = None) -> None:
        super().__init__(out, scratch)
        self.places, self._context = workers or cores(), _context()
        # Workers end when the other end of this pipe is closed: by `close`, or because this process died.
        self._reader, self._lifeline = self._context.Pipe(duplex=False)
        threads = max(1, cores() // self.places)
        given = out.absolute(), scratch.absolute(), threads, choose_device("auto")
        self._arguments = str(cache_directory().absolute()), self._reader, *given
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[str], ProcessPoolExecutor] = {}

    def submit(self, cell: Cell) -> Future[Any]:
        """Send a cell to a worker."""
        job = pickled(cell)
        with _interrupts_blocked():  # new processes inherit this: Ctrl-C is for the driver
            while True:
                worker = self._idle.pop() if self._idle else self._start()
                try:
                    future = worker.submit(_compute, job)
                except BrokenExecutor:  # it died while it was idle
                    worker.shutdown()
                else:
                    self._busy[future] = worker
                    return future

    def answer(self, future: Future[Any]) -> Answer | None:
        """Return the answer of a finished cell, or None if its worker died."""
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
        """End the workers at once."""
        self._lifeline.close()
        for worker in (*self._idle, *self._busy.values()):
            worker.shutdown(cancel_futures=True)
        self._reader.close()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, self._context, _start_worker, self._arguments)


def pickled(cell: Cell) -> bytes:
    """Return the message that asks another process for a cell."""
    try:
        return pickle.dumps(cell.job)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ReachcostError(
            f"{cell.name} cannot be sent to another process ({error}): let a function at the top of a module return "
            "the study, and let its runs hold plain values"
        ) from error


_worker: Worker | None = None
"""The worker of a worker process."""


def _start_worker(cache: str, lifeline: Connection, *given: Any) -> None:
    global _worker
    os.environ["REACHCOST_CACHE"] = cache
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    _worker = Worker(*given)


def _end_with(lifeline: Connection) -> None:
    lifeline.poll(None)
    os._exit(1)


def _compute(job: bytes) -> str:
    """Return a file with the answer: a pool waits forever for a worker that is killed while it sends a long one."""
    assert _worker is not None
    answer = _worker.compute(pickle.loads(job))
    with tempfile.NamedTemporaryFile(dir=_worker.scratch, delete=False) as file:
        pickle.dump(answer, file)
    return file.name


def _context() -> BaseContext:
    """Return a context whose processes are not forks of this one, which has threads and perhaps a GPU."""
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
