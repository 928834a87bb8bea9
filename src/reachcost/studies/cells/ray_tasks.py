"""Cells as tasks on a Ray cluster: Ray carries their inputs, schedules them, and tries again where workers die."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import socket
import sys
import tempfile
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from reachcost.base.atomic import sweep
from reachcost.base.devices import choose_device
from reachcost.base.machine import code_sha256, cores, versions
from reachcost.base.places import expanded
from reachcost.errors import ReachcostError
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.executors import DIED, pickled
from reachcost.studies.cells.node import Shipment, files_of_needs, nodes_directory, sent_path, user_files
from reachcost.studies.cells.worker import Answer, Failure

RETRIES = 5
"""How often Ray starts a task again whose worker or node died."""
PATIENCE = 20.0
"""Seconds that a cluster has to answer."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Keeps Ray from reporting its use, and from writing on the terminal."""
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_worker_niceness": "0"}
"""Of a cluster of this machine: it listens to nobody else, and its workers are as important as other processes."""
PREFIX = f"reachcost-ray-{os.getuid()}-"
"""Of directories of such clusters; sockets in them allow no long name."""


def quiet(alone: bool = True) -> None:
    """Set, before Ray is imported, what keeps it quiet.

    Args:
        alone: Whether its cluster is one of this machine.
    """
    os.environ.update({**QUIET, **(ALONE if alone else {})})


class RayTasks:
    """Computes cells on a Ray cluster.

    Args:
        out: The output directory; only the driver reads it.
        scratch: A directory for what cells write meanwhile; workers use another, on their node.
        workers: Number of cells at a time; by default the cores of the cluster (or GPUs, if they are to be used).
        address: Of an existing cluster (`auto`, `host:port`, `ray://host:port`); by default that of `RAY_ADDRESS`, and
            where there is none, a cluster of this machine is started, for as long as it is needed.
    """

    tries = 1

    def __init__(self, out: Path, scratch: Path, workers: int | None = None, address: str | None = None) -> None:
        self._out, self._workers, self._device, self._driver = out, workers, choose_device("auto"), uuid4().hex
        self._directory, self._lock = None, None
        self._ray = self._connected(address or os.environ.get("RAY_ADDRESS"))
        gpus = int(self._device.startswith("cuda"))
        self._unit, self._sent = "GPU" if gpus else "CPU", dict[tuple[Path, int, int], Any]()
        self._compute = self._ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_task(self._ray))

    @property
    def places(self) -> int:
        """Number of cells at a time."""
        return self._workers or max(1, int(self._ray.cluster_resources().get(self._unit, 0)))

    def submit(self, cell: Cell) -> Future[Any]:
        """Start a task, with everything that the cell needs."""
        reads = cell.recording.reference.reads
        files = user_files(reads)
        searched = [sent_path(Path(path)) for path in sys.path]
        shipment = Shipment(
            pickled(cell),
            {name: self._put(path) for name, path in files_of_needs(cell, self._out).items()},
            {name: self._put(path) for name, path in files.items()},
            {text: sent_path(expanded(text)) for text in reads},
            [path for path in searched if any(name.startswith(f"{path}/") for name in files)],
        )
        expected = {**versions(), "code": code_sha256()}
        return self._compute.remote(shipment, expected, self._driver, self._device).future()

    def answer(self, future: Future[Any]) -> Answer:
        """What a finished task came to."""
        errors = self._ray.exceptions
        try:
            answer = future.result()
        except errors.RayTaskError as error:
            return Answer(Failure(f"its worker failed ({str(error).strip().splitlines()[-1]})"))
        except errors.RayError:
            return Answer(Failure(DIED.format(RETRIES + 1)))
        if isinstance(answer, str):
            raise ReachcostError(answer)
        return answer

    def close(self) -> None:
        """End the tasks, and the cluster if it is ours: nothing of theirs is recorded."""
        self._ray.shutdown()
        self._remove()
        patience = time.monotonic() + 2
        while any(nodes_directory().iterdir()) and time.monotonic() < patience:  # workers of this machine are ending
            sweep(nodes_directory())
            time.sleep(0.05)

    def _put(self, path: Path) -> Any:
        """A reference to the content of a file, which is sent once."""
        try:
            state = path.stat()
            key = path, state.st_size, state.st_mtime_ns
            if key not in self._sent:
                mapped = np.memmap(path, np.uint8, "r") if state.st_size else np.zeros(0, np.uint8)
                self._sent[key] = self._ray.put(np.asarray(mapped))
            return self._sent[key]
        except OSError as error:
            raise ReachcostError(f"cannot send {path} to workers ({error.strerror}): make it readable") from error

    def _connected(self, address: str | None) -> Any:
        """Ray, connected to a cluster that is there or to a new one."""
        quiet(alone=address is None)
        try:
            import ray
        except ImportError as error:
            raise ReachcostError(f"--on ray needs Ray ({error}): pip install 'reachcost[ray]'") from error
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.FATAL}
        if address is None:
            self._directory, self._lock = _new_directory()
            options |= {"num_cpus": self._workers or cores(), "include_dashboard": False, "_temp_dir": self._directory}
        try:
            host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
            if colon and port.isdigit():  # find out quickly that nobody listens: Ray would try for minutes
                socket.create_connection((host, int(port)), timeout=PATIENCE).close()
            ray.init(address or "local", **options)
        except Exception as error:  # of many kinds, some of them of the system
            self._remove()
            where, reason = address or "on this machine", str(error).strip().splitlines()
            raise ReachcostError(
                f"there is no Ray cluster {where} ({reason[0] if reason else type(error).__name__}): start one with "
                "`ray start --head`, or leave --address and RAY_ADDRESS out"
            ) from error
        return ray

    def _remove(self) -> None:
        if self._directory is not None and self._lock is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            os.close(self._lock)
            self._directory = None


def _new_directory() -> tuple[str, int]:
    """A directory for a cluster, locked as long as this process lives; those of dead processes are removed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)
    directory = tempfile.mkdtemp(prefix=PREFIX)
    handle = os.open(directory, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return directory, handle


def _task(ray: Any) -> Any:
    """The function of tasks; it is sent as it is, so that a node without reachcost can say so."""

    def compute(shipment: Any, expected: dict[str, str], driver: str, device: str) -> Any:
        where = f"a node of the cluster ({ray.util.get_node_ip_address()})"
        remedy = "install there what is installed here"
        try:
            from reachcost.base.machine import code_sha256, versions
            from reachcost.studies.cells.node import node_worker
        except (ImportError, AttributeError):
            return f"{where} has no reachcost, or an old one: {remedy}"
        found = {**versions(), "code": code_sha256()}
        if differ := [name for name in expected if found.get(name) != expected[name]]:
            said = {"code": "another state of the code of reachcost"}
            other = [said.get(name, f"{name} {found.get(name)} instead of {expected[name]}") for name in differ]
            return f"{where} has {', '.join(other)}: {remedy}"
        try:
            worker = node_worker(f"{driver} {ray.get_runtime_context().get_node_id()}", device)
        except Exception as error:  # no room, another user's directory, no such device
            return f"{where} cannot begin ({error}): fix that, or take it out of the cluster"
        return worker.compute(shipment, ray.get)

    return compute
