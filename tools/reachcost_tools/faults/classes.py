"""The classes of faults, and one attempt.

`python -m reachcost_tools.faults.classes NAME COUNT DIR` makes the attempts of one class and prints a line of JSON for
each.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import cast


@dataclass(frozen=True)
class Attempt:
    """A fault and its outcome: right are the undisturbed bytes, or one sentence and a non-zero exit."""

    what: str
    """The fault, with what is needed to repeat it."""
    wrong: str = ""
    """What was wrong about the outcome; empty if nothing was."""


Tries = Callable[[int, Path], Iterator[Attempt]]
"""Makes a number of attempts in a directory; the n-th attempt depends on n alone."""


@dataclass(frozen=True)
class FaultClass:
    """Faults of one kind."""

    function: str
    """Module and name of its `Tries`."""
    count: int
    """Default number of attempts."""
    what: str
    """What is tried."""

    def tries(self) -> Tries:
        """The function; importing it takes seconds, so only its own process does."""
        return cast(Tries, resolve_name(f"reachcost_tools.faults.{self.function}"))


CLASSES = {
    "kills": FaultClass("kills:kills", 104, "SIGKILL of commands and of their workers"),
    "mutated": FaultClass("damage:mutated", 2_200, "damaged files of every format that is read"),
    "nodes": FaultClass("nodes:nodes", 24, "SIGKILL of workers, nodes and drivers of a Ray cluster"),
    "hostile": FaultClass("hostile:hostile", 400, "files and requests made to harm"),
    "interrupts": FaultClass("kills:interrupts", 100, "Ctrl-C at any moment"),
    "disks": FaultClass("shortages:disks", 36, "disks that are full, become full, or are read-only"),
    "memory": FaultClass("shortages:memory", 30, "too little memory, at many levels"),
    "drivers": FaultClass("kills:drivers", 22, "two or three drivers in one directory at once"),
    "clocks": FaultClass("kills:clocks", 20, "clocks that jump, wrong zones, files of the far future and past"),
}
"""Classes by name; the longest run first, as two run at a time."""


def main(name: str, count: str, directory: str) -> None:
    """Make the attempts of one class."""
    scratch = Path(directory)
    scratch.mkdir(parents=True, exist_ok=True)
    for attempt in CLASSES[name].tries()(int(count), scratch):
        print(json.dumps(asdict(attempt)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
