"""The classes of faults that are tried: a line each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from reachcost_tools.faults.attempt import Tries


@dataclass(frozen=True)
class FaultClass:
    """Faults of one kind."""

    module: str
    """Where `tries` is, or another function of that kind, as in `faults.kills:tries`."""
    count: int
    """How often it is tried."""
    what: str
    """What is tried, in a word or two."""

    def tries(self) -> Tries:
        """The function; importing it takes seconds, so only its process does."""
        module, _, name = self.module.partition(":")
        return cast(Tries, getattr(import_module(module), name or "tries"))


CLASSES = {
    "kills": FaultClass("reachcost_tools.faults.kills", 104, "SIGKILL of commands and of their workers"),
    "mutated": FaultClass("reachcost_tools.faults.mutated", 2_200, "damaged files of every format that is read"),
    "nodes": FaultClass("reachcost_tools.faults.nodes", 24, "SIGKILL of workers, nodes and drivers of a Ray cluster"),
    "hostile": FaultClass("reachcost_tools.faults.hostile", 400, "files and requests that were written to harm"),
    "interrupts": FaultClass("reachcost_tools.faults.interrupts", 100, "Ctrl-C at any moment"),
    "disks": FaultClass("reachcost_tools.faults.disks", 36, "disks that are full, become full, or are read only"),
    "memory": FaultClass("reachcost_tools.faults.memory", 30, "too little memory, at many levels"),
    "drivers": FaultClass("reachcost_tools.faults.drivers", 22, "two or three drivers in one directory at once"),
    "clocks": FaultClass(
        "reachcost_tools.faults.clocks", 20, "clocks that jump, wrong zones, files of the far future and past"
    ),
}
"""Name in the record, and how it is tried; the longest first, as two run at a time."""
