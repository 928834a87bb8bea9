"""A Ray cluster: one that is there, or one of this machine that lasts as long as it is needed."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from reachcost.base.machine import cores
from reachcost.errors import ReachcostError

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""What keeps Ray from reporting its use, and from writing on the terminal."""
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_worker_niceness": "0"}
"""Of a cluster of this machine: it does everywhere what Ray does on these two systems, listens to nobody else; and
workers are as important as any other process."""
PATIENCE = 20.0
"""Seconds that a cluster has to answer."""
PREFIX = f"reachcost-ray-{os.getuid()}-"
"""How directories of clusters are called; sockets in them allow no long name."""


class Cluster:
    """A connection to a cluster.

    Args:
        address: Where it is; None starts one of this machine.
        workers: How many this one has room for; by default one for each core.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        self._directory, self._lock = (None, -1) if address else _new_directory()
        quiet(alone=address is None)
        try:
            import ray
        except ImportError as error:
            self._remove()
            raise ReachcostError(f"--on ray needs Ray ({error}): pip install 'reachcost[ray]'") from error
        self.ray: Any = ray
        own: dict[str, Any] = {"num_cpus": workers or cores(), "include_dashboard": False, "_temp_dir": self._directory}
        silent: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.FATAL}
        try:
            _require_answer(address)
            with _own_signals():
                ray.init(address or "local", **silent, **({} if address else own))
        except Exception as error:  # of many kinds, some of them of the system
            self._remove()
            where, reason = address or "on this machine", str(error).strip().splitlines()
            raise ReachcostError(
                f"there is no Ray cluster {where} ({reason[0] if reason else type(error).__name__}): start one with "
                "`ray start --head`, or leave --address and RAY_ADDRESS out"
            ) from error

    def close(self) -> None:
        """Leave it; one of our own ends."""
        with _own_signals():
            self.ray.shutdown()
        self._remove()

    def _remove(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            os.close(self._lock)
            self._directory = None


def _require_answer(address: str | None) -> None:
    """Find out quickly that nobody listens at an address: Ray would try for minutes."""
    host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def quiet(alone: bool = True) -> None:
    """Keep Ray, before it is imported, from reporting its use and writing on the terminal.

    Args:
        alone: Whether it is to listen to this machine only.
    """
    os.environ.update({**QUIET, **(ALONE if alone else {})})


def _new_directory() -> tuple[str, int]:
    """A directory for a cluster, locked as long as this process lives; those of the dead are removed."""
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


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray makes SIGTERM its own; here it stays what it was."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
