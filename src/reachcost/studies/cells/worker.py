"""What happens in a worker process: it finds cells by their name, computes them, and sends back what they came to."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from reachcost.base.devices import use_device
from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.results.records import Columns, Result, computed
from reachcost.studies.cells.executor import Failure
from reachcost.studies.cells.order import Desk, Order


class Surroundings(NamedTuple):
    """Where a worker works, and with what."""

    out: Path
    """The output directory: it reads finished runs there, and writes nothing."""
    scratch: Path
    """A directory for what cells write meanwhile, and for logs that workers share."""
    threads: int
    """Threads of torch; no result depends on their number."""
    device: str
    """Where networks compute."""


class Answer(NamedTuple):
    """What became of a cell."""

    outcome: Result | Failure
    warned: list[tuple[str, type[Warning]]]
    """What the user is to be warned of."""


class Finder:
    """Finds cells by the table that asks for them and their name: functions cannot be sent, names can.

    Args:
        here: Where to look.
    """

    def __init__(self, here: Surroundings) -> None:
        self._desk = Desk(here.out, Progress(), shared=here.scratch)
        self._found: dict[Order, dict[str, Callable[[Path], Columns]]] = {}

    def find(self, order: Order, name: str) -> Callable[[Path], Columns]:
        """The computation of a cell; what has been recorded since the last walk may lead to more of them."""
        if name not in self._found.get(order, {}):
            missing = self._desk.walk(order).missing.values()
            self._found[order] = {cell.name: cell.compute for cell in missing}
        if name not in self._found[order]:
            raise ReachcostError(
                f"{order.table} does not ask for {name} in another process: let its code ask for the same runs always"
            )
        return self._found[order][name]


def serve(connection: Connection, here: Surroundings) -> None:
    """Compute cells until None comes or the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the driver decides
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    torch.set_num_threads(here.threads)
    use_device(here.device)
    finder = Finder(here)
    with suppress(EOFError, OSError):
        while (asked := connection.recv()) is not None:
            connection.send(_answer(finder, here.scratch, *asked))


def _end_with_the_driver() -> None:
    """A driver that was killed ends nobody, and its pipe is only looked at between two cells."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    os._exit(1)


def _answer(finder: Finder, scratch: Path, order: Order, name: str) -> Answer:
    with warnings.catch_warnings(record=True) as caught:
        try:
            outcome: Any = computed(finder.find(order, name), scratch)
        except Exception as error:  # the others go on
            outcome = Failure(Failure.of(error).reason)  # an error of somebody else may not survive the journey
    return Answer(outcome, [(str(one.message), one.category) for one in caught])
