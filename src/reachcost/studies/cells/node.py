"""A worker on a node that shares no disk with the driver: files that a cell needs are sent with it."""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from reachcost.base.atomic import private_directory, shared_directory, sweep
from reachcost.base.places import bring, expanded
from reachcost.errors import reason_of
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.worker import Answer, Failure, Worker


class Shipment(NamedTuple):
    """A cell as it is sent to a node; files are references to their content."""

    job: bytes
    runs: dict[str, Any]
    """Files of the runs that it needs, by their path below the output directory."""
    files: dict[str, Any]
    """Files of the user, by `sent_path`."""
    places: dict[str, str]
    """`sent_path` of what the study reads, by how the user wrote it."""
    search: list[str]
    """Where modules are looked for among the files."""


def files_of_needs(cell: Cell, out: Path) -> dict[str, Path]:
    """The records of all runs that a cell needs, by their path below the output directory."""
    found: dict[str, Path] = {}
    for need in cell.needs:
        found |= files_of_needs(need, out)
        found |= {str(path.relative_to(out)): path for path in sorted(need.path.iterdir())}
    return found


def user_files(reads: Iterable[str]) -> dict[str, Path]:
    """Files that a study reads, and loaded modules of no installed package, by `sent_path`."""
    named = [expanded(text) for text in reads]
    below = [file for path in named for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    modules = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    own = [Path(file) for file in modules if file and _is_own(file)]
    return {sent_path(path): path for path in (*below, *own) if path.is_file()}


def sent_path(path: Path) -> str:
    """The path of a file or directory of the driver below a directory of a node."""
    return os.path.normpath(path.absolute()).lstrip(os.sep)


@cache  # there are thousands of modules
def _is_own(module: str) -> bool:
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed.append(Path(__file__).resolve().parents[2])
    path = Path(module)
    return path.suffix == ".py" and path.is_file() and not any(path.resolve().is_relative_to(one) for one in installed)


def nodes_directory() -> Path:
    """Where workers on this machine keep what they are sent; code is run from there, so it must be ours alone."""
    return private_directory(Path(tempfile.gettempdir()) / f"reachcost-workers-{os.getuid()}")


class NodeWorker:
    """Computes cells with the files that were sent; latents are encoded once on each node, into its own cache.

    Args:
        common: What workers of one driver on one node have in common: they share a directory.
        device: Where networks compute.
    """

    def __init__(self, common: str, device: str) -> None:
        sweep(nodes_directory())
        key = hashlib.sha256(common.encode()).hexdigest()[:32]
        scratch, leave = shared_directory(nodes_directory() / "node", key)
        atexit.register(leave)
        self._out, self._files = scratch / "out", scratch / "files"
        self._worker = Worker(self._out, scratch, 1, device)

    def compute(self, shipment: Shipment, get: Callable[[Any], np.ndarray]) -> Answer:
        """Write the files that are not there yet, and compute the cell."""
        try:
            for directory, files in ((self._out, shipment.runs), (self._files, shipment.files)):
                for name, reference in files.items():
                    write_file(directory / name, lambda reference=reference: get(reference))
            bring({text: self._files / name for text, name in shipment.places.items()})
            search = [str(self._files / name) for name in shipment.search]
            sys.path[:0] = [path for path in search if path not in sys.path]
            job = pickle.loads(shipment.job)
        except Exception as error:  # other cells go on
            return Answer(Failure(reason_of(error)))
        return self._worker.compute(job)


def write_file(place: Path, content: Callable[[], np.ndarray]) -> None:
    """Make a file that appears when it is complete, unless it is there."""
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".{uuid4().hex}")
    try:
        content().tofile(partial)
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)


node_worker = cache(NodeWorker)
"""The worker of this process."""
