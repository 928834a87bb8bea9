"""Executors compute cells: this process, or a pool of worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from queue import LifoQueue
from typing import Any, NamedTuple

import torch

from reachcost.core.devices import choose_device, use_device
from reachcost.core.files import cache_directory
from reachcost.core.machine import cores
from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError, reason_of
from reachcost.experiments.cells import Cell, Recording, StudyRef
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.study import Study
from reachcost.results.records import Result, computed, differences

TRIES = 2
"""Maximum number of local workers that compute a cell, if they die."""
DIED = "its worker process died {} times: memory may have run out, take fewer --workers"


class Outcome(NamedTuple):
    """The result of a cell, or a sentence with the reason why there is none; and warnings for the user."""

    result: Result | str
    warned: Sequence[tuple[str, type[Warning]]] = ()


class Recordings:
    """Studies below one output directory, each built once, so that its tables share logs, models and latents."""

    def __init__(self, out: Path, progress: Progress | None = None) -> None:
        self._out, self._progress = out, progress or Progress()
        self._built: dict[StudyRef, Recording] = {}

    def of(self, reference: StudyRef) -> Recording:
        """Return the recording of a study."""
        base = reference._replace(variants=())
        if base not in self._built:
            study, settings = base.study(*base.arguments), (self._out, self._progress, base.episodes)
            recording = Experiment(study, *settings) if isinstance(study, Study) else Recording(study, *settings)
            recording.reference = base
            self._built[base] = recording
        recording = self._built[base]
        for make, arguments in reference.variants:
            recording = recording.derive(make, *arguments)
        return recording


class Worker:
    """Computes cells in a worker process; reads the runs that they need in `out`, and records nothing."""

    def __init__(self, out: Path, scratch: Path, threads: int, device: str) -> None:
        self.scratch, self._recordings = scratch, Recordings(out)
        torch.set_num_threads(threads)
        use_device(device)

    def compute(self, message: bytes) -> Outcome:
        """Compute a cell; an error becomes a sentence, as errors of other packages may not be picklable."""
        with warnings.catch_warnings(record=True) as caught:
            try:
                reference, spec, config = pickle.loads(message)
                cell = self._recordings.of(reference).cell(spec)
                for where, expected, found in differences(config, cell.config):
                    raise ReachcostError(
                        f"{cell.name} has another configuration in a worker ({where} is {found!r} there and "
                        f"{expected!r} in the driver): let no file change while it runs, and let the study declare the "
                        "same runs each time"
                    )
                result = computed(cell.compute, self.scratch)
            except Exception as error:  # other cells go on
                result = reason_of(error)
        return Outcome(result, [(str(one.message), one.category) for one in caught])


class Executor:
    """Computes cells in this process, one after the other; subclasses compute them elsewhere. It records nothing."""

    places = 1
    """Number of cells that are computed at a time."""

    def __init__(self, out: Path, scratch: Path) -> None:
        self._out, self._scratch = out, scratch

    def submit(self, cell: Cell) -> Future[Any]:
        """Start a cell whose needs are recorded."""
        future: Future[Outcome] = Future()
        try:
            future.set_result(Outcome(computed(cell.compute, self._scratch)))
        except Exception as error:  # other cells go on
            future.set_result(Outcome(reason_of(error)))
        return future

    def outcome(self, future: Future[Any]) -> Outcome:
        """Return the outcome of a finished cell."""
        return future.result()

    def close(self) -> None:
        """Stop all cells."""


Start = Callable[[Path, Path], Executor]
"""Makes an executor, from the output directory and a directory for temporary files."""


class LocalPool(Executor):
    """Computes cells in worker processes of this machine, by default one for each core; they share its threads.

    Every worker is a `ProcessPoolExecutor` of one process: if it dies, only its own cell is affected.
    """

    def __init__(self, out: Path, scratch: Path, workers: int | None = None) -> None:
        super().__init__(out, scratch)
        self.places, self._closed = workers or cores(), False
        context = multiprocessing.get_context("forkserver")  # no forks of this process, which has threads
        context.set_forkserver_preload([__name__])
        # Workers end when the other end of this pipe is closed: by `close`, or because this process died.
        self._reader, self._lifeline = context.Pipe(duplex=False)
        settings = out.absolute(), scratch.absolute(), max(1, cores() // self.places), choose_device("auto")
        arguments = str(cache_directory().absolute()), self._reader, *settings
        self._start = partial(ProcessPoolExecutor, 1, context, _start_worker, arguments)
        self._workers: LifoQueue[ProcessPoolExecutor | None] = LifoQueue()
        for _ in range(self.places):
            self._workers.put(None)  # not started yet
        self._threads = ThreadPoolExecutor(self.places, initializer=_block_interrupts)

    def submit(self, cell: Cell) -> Future[Any]:
        """Send a cell to a worker."""
        return self._threads.submit(self._compute, cell.message())

    def _compute(self, message: bytes) -> Outcome:
        """Let a worker compute a cell; if it dies, start another one."""
        worker = self._workers.get()
        try:
            for _ in range(TRIES):
                try:
                    worker = worker or self._start()
                    file = Path(worker.submit(_compute_in_worker, message).result())
                except BrokenExecutor:
                    worker = worker and worker.shutdown()
                    if self._closed:
                        break
                else:
                    outcome = pickle.loads(file.read_bytes())
                    file.unlink()
                    return outcome
        except Exception as error:  # no room for the outcome
            return Outcome(reason_of(error))
        finally:
            self._workers.put(worker)
        return Outcome(DIED.format(TRIES))

    def close(self) -> None:
        """End the workers at once."""
        self._closed = True
        self._lifeline.close()
        self._threads.shutdown(cancel_futures=True)
        while not self._workers.empty():
            if worker := self._workers.get():
                worker.shutdown()
        self._reader.close()


def _block_interrupts() -> None:
    """Keep Ctrl-C, which is for the driver, from the processes that this thread starts."""
    resource_tracker.ensure_running()  # it would unblock them
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


_worker: Worker | None = None
"""The worker of a worker process."""


def _start_worker(cache: str, lifeline: Connection, *settings: Any) -> None:
    global _worker
    os.environ["REACHCOST_CACHE"] = cache
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    _worker = Worker(*settings)


def _end_with(lifeline: Connection) -> None:
    lifeline.poll(None)
    os._exit(1)


def _compute_in_worker(message: bytes) -> str:
    """Return a file with the outcome: a pool waits forever for a worker that is killed while it sends a long one."""
    assert _worker is not None
    outcome = _worker.compute(message)
    with tempfile.NamedTemporaryFile(dir=_worker.scratch, delete=False) as file:
        pickle.dump(outcome, file)
    return file.name
