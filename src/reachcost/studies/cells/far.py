"""A worker that shares no disk with the driver: it makes files of what it is sent, in a directory of its node."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.base.atomic import private_directory, shared_directory, sweep
from reachcost.base.places import bring
from reachcost.data.kept import KeptLatents
from reachcost.studies.cells.executor import Failure
from reachcost.studies.cells.parcels import Cargo, Parcel, unpack, unpacked
from reachcost.studies.cells.worker import Answer, Clerk, Surroundings


def nodes_directory() -> Path:
    """Where workers on this machine keep what they are sent, those of each driver and node by themselves.

    Code is run from there, and everybody knows its name: it must be ours, and nobody else's.
    """
    return private_directory(Path(tempfile.gettempdir()) / f"reachcost-workers-{os.getuid()}")


class FarWorker:
    """Does errands with what it is sent.

    Args:
        common: Who shares a directory for logs, latents and files of the user's: the workers of a driver on a node.
        threads: Threads of torch.
        device: Where networks compute.
        get: Turns pieces of a parcel into bytes.
    """

    def __init__(self, common: str, threads: int, device: str, get: Callable[[Any], bytes]) -> None:
        sweep(nodes_directory())
        key = hashlib.sha256(common.encode()).hexdigest()[:32]
        scratch, self.leave = shared_directory(nodes_directory() / "node", key)
        self._files, self._out = scratch / "files", Path(tempfile.mkdtemp(dir=scratch))
        os.environ["REACHCOST_CACHE"] = str(scratch / "cache")
        self._get = get
        self._latents: dict[str, list[tuple[int, int, Parcel]]] = {}
        self._clerk = Clerk(Surroundings(self._out, scratch, threads, device), self._bring)

    def answer(self, cargo: Cargo) -> Answer:
        """Unpack what came with an errand, and do it."""
        try:
            self._unpack(cargo)
            errand = pickle.loads(cargo.errand)
        except Exception as error:  # the others go on
            return Answer(Failure(Failure.of(error).reason), [])
        return self._clerk.answer(errand)

    def _unpack(self, cargo: Cargo) -> None:
        for name, parcel in cargo.runs.items():
            unpack(parcel, self._out / name, self._get)
        for name, parcel in cargo.files.items():
            unpack(parcel, self._files / name, self._get)
        bring({text: self._files / name for text, name in cargo.places.items()})
        sys.path[:0] = [path for name in cargo.search if (path := str(self._files / name)) not in sys.path]
        self._latents |= cargo.latents

    def _bring(self, kept: KeptLatents) -> bool:
        """Keep latents on this node, a piece at a time, unless another worker did."""
        if kept.key not in self._latents:
            return False
        with kept.writing() as writer:
            missing = list(writer.missing)
            for first, stop, parcel in self._latents[kept.key]:
                if any(gap.start <= first and stop <= gap.stop for gap in missing):
                    content = b"".join(unpacked(parcel, self._get))
                    writer.write(slice(first, stop), np.frombuffer(content, np.float32).reshape(stop - first, -1))
            writer.keep()
        return True
