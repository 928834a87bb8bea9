"""Cells as tasks on a Ray cluster: Ray sends their inputs, schedules them, and retries them when workers die.

Nodes share no disk with the driver: the files that a cell needs are objects of Ray, which workers write to their node.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from reachcost.core.devices import choose_device
from reachcost.core.files import (
    expand_path,
    new_file,
    private_directory,
    redirect_paths,
    remove_leftovers,
    shared_directory,
    user_files,
)
from reachcost.core.machine import code_sha256, cores, versions
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Cell, with_needs
from reachcost.experiments.cells.executors import DIED, Executor, Outcome, Worker
from reachcost.results.records import read_run

RETRIES = 5
"""Maximum number of times that Ray restarts a task whose worker or node died."""


def quiet(alone: bool = True) -> None:
    """Set the environment before Ray is imported: no reports of its use, no lines on the terminal.

    With `alone`, a cluster on this machine accepts no other machine, and its workers have normal priority.
    """
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS_SKIP_REGEX=".")
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    if alone:
        os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_worker_niceness="0")


class RayTasks(Executor):
    """Computes cells on a Ray cluster.

    Args:
        out: The output directory, which only the driver reads.
        scratch: Not used.
        workers: Number of cells at a time; by default the number of cores (or GPUs, if they are used) of the cluster.
        address: Address of a cluster; by default that of `RAY_ADDRESS`, or a new cluster on this machine.
    """

    def __init__(self, out: Path, scratch: Path, workers: int | None = None, address: str | None = None) -> None:
        super().__init__(out, scratch)
        self._workers, device = workers, choose_device("auto")
        self._directory = tempfile.TemporaryDirectory(prefix="reachcost-ray-", ignore_cleanup_errors=True)
        try:
            self._ray = self._connected(address or os.environ.get("RAY_ADDRESS"))
        except BaseException:
            self._directory.cleanup()
            raise
        gpus = int(device.startswith("cuda"))
        self._unit, self._sent = "GPU" if gpus else "CPU", dict[tuple[Path, int, int], Any]()
        task = _task(self._ray, {**versions(), "code": code_sha256()}, uuid4().hex, device)
        self._compute = self._ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(task)

    @property
    def places(self) -> int:
        """Number of cells at a time."""
        return self._workers or max(1, int(self._ray.cluster_resources().get(self._unit, 0)))

    def submit(self, cell: Cell) -> Future[Any]:
        """Start a task, and send the files that the cell needs."""
        reads = cell.recording.reference.reads
        files = {f"out/{path.relative_to(self._out)}": self._put(path) for path in files_of_needs(cell)}
        files |= {sent_path(path): self._put(path) for path in user_files(reads)}
        copies = {text: sent_path(expand_path(text)) for text in reads}
        search = [sent_path(Path(path)) for path in sys.path]
        return self._compute.remote(cell.message(), files, copies, search).future()

    def outcome(self, future: Future[Any]) -> Outcome:
        """Return the outcome of a finished task."""
        try:
            outcome = future.result()
        except self._ray.exceptions.RayTaskError as error:
            return Outcome(f"its worker failed ({str(error).strip().splitlines()[-1]})")
        except self._ray.exceptions.RayError:
            return Outcome(DIED.format(RETRIES + 1))
        if isinstance(outcome, str):
            raise ReachcostError(outcome)
        return outcome

    def close(self) -> None:
        """End the tasks, and the cluster if it is ours."""
        with _own_signals():
            self._ray.shutdown()
        self._directory.cleanup()
        deadline = time.monotonic() + 2
        while any(nodes_directory().iterdir()) and time.monotonic() < deadline:  # workers of this machine are ending
            remove_leftovers(nodes_directory())
            time.sleep(0.05)

    def _put(self, path: Path) -> Any:
        """Return a reference to the content of a file, which is sent once."""
        try:
            state = path.stat()
            key = path, state.st_size, state.st_mtime_ns
            if key not in self._sent:
                content = np.memmap(path, np.uint8, "r") if state.st_size else np.zeros(0, np.uint8)
                self._sent[key] = self._ray.put(np.asarray(content))
            return self._sent[key]
        except OSError as error:
            raise ReachcostError(f"cannot send {path} to workers ({error.strerror}): make it readable") from error

    def _connected(self, address: str | None) -> Any:
        """Return Ray, connected to an existing or a new cluster."""
        quiet(alone=address is None)
        try:
            import ray
        except ImportError as error:
            raise ReachcostError(f"--on ray needs Ray ({error}): pip install 'reachcost[ray]'") from error
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.FATAL}
        if address is None:
            options |= {"num_cpus": self._workers or cores(), "include_dashboard": False}
            options["_temp_dir"] = self._directory.name
        try:
            host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
            if colon and port.isdigit():  # find out quickly that nobody listens: Ray would try for minutes
                socket.create_connection((host, int(port)), timeout=20.0).close()
            with _own_signals():
                ray.init(address or "local", **options)
        except Exception as error:  # of many classes
            where, reason = address or "on this machine", str(error).strip().splitlines()
            raise ReachcostError(
                f"there is no Ray cluster {where} ({reason[0] if reason else type(error).__name__}): start one with "
                "`ray start --head`, or leave --address and RAY_ADDRESS out"
            ) from error
        return ray


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces by its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _task(ray: Any, expected: dict[str, str], driver: str, device: str) -> Callable[..., Any]:
    """Return the function of tasks, which is sent by value, so that it can report a node without reachcost."""

    def compute(message: bytes, files: dict[str, Any], copies: dict[str, str], search: list[str]) -> Any:
        where = f"a node of the cluster ({ray.util.get_node_ip_address()})"
        remedy = "install there what is installed here"
        try:
            from reachcost.core.machine import code_sha256, versions
            from reachcost.experiments.cells.ray_tasks import node_worker
        except (ImportError, AttributeError):
            return f"{where} has no reachcost, or an old one: {remedy}"
        found = {**versions(), "code": code_sha256()}
        words = {"code": "another state of the code of reachcost"}
        differ = [name for name in expected if found.get(name) != expected[name]]
        if other := [words.get(name, f"{name} {found.get(name)} instead of {expected[name]}") for name in differ]:
            return f"{where} has {', '.join(other)}: {remedy}"
        try:
            worker = node_worker(f"{driver}{ray.get_runtime_context().get_node_id()}", device)
        except Exception as error:  # no room, another user's directory, no such device
            return f"{where} cannot begin ({error}): fix that, or take it out of the cluster"
        worker.receive({name: partial(ray.get, content) for name, content in files.items()}, copies, search)
        return worker.compute(message)

    return compute


def files_of_needs(cell: Cell) -> Iterator[Path]:
    """Yield the files of all runs that a cell needs."""
    for run in map(read_run, with_needs(cell.needs)):
        artefacts = (run.path / name for name in run.manifest["artefacts"])
        yield from (*run.kept_files, *filter(Path.exists, artefacts))


def sent_path(path: Path) -> str:
    """Return where a file or directory of the driver is below a directory of a node."""
    return f"files{os.path.normpath(path.absolute())}"


def nodes_directory() -> Path:
    """Return where workers on this machine keep files; it is private, as code is run from there."""
    return private_directory(Path(tempfile.gettempdir()) / f"reachcost-workers-{os.getuid()}")


class NodeWorker(Worker):
    """A worker with the files that were sent to its node, in a directory that workers with the same `common` share."""

    def __init__(self, common: str, device: str) -> None:
        remove_leftovers(nodes_directory())
        key = hashlib.sha256(common.encode()).hexdigest()[:32]
        directory, leave = shared_directory(nodes_directory() / "node", key)
        atexit.register(leave)
        super().__init__(directory / "out", directory, 1, device)

    def receive(self, files: dict[str, Any], copies: dict[str, str], search: list[str]) -> None:
        """Write missing files, given by the path below the directory of the node, and use the user's files there."""
        for name, content in files.items():
            if not (file := self.scratch / name).exists():
                with new_file(file) as written:
                    content().tofile(written)
        redirect_paths({text: self.scratch / name for text, name in copies.items()})
        found = [str(self.scratch / name) for name in search if (self.scratch / name).is_dir()]
        sys.path[:0] = [path for path in found if path not in sys.path]


node_worker = cache(NodeWorker)
"""The worker of this process."""
