"""What happens in a worker process: it finds cells by their name, computes them, and sends back what they came to."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from reachcost.base.devices import use_device
from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.results.records import Result, computed, differences
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.encoding import Bring, Encoded, Shard, Wanted, WorkersEncoder, nothing_to_bring
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


class Errand(NamedTuple):
    """What a worker is asked for."""

    order: Order
    """The table that asks for a cell."""
    cell: str
    """Its name."""
    config: str
    """Its configuration, in JSON."""
    shard: Shard | None = None
    """Latents that it needs, if only some of these are wanted and not the cell itself."""


def pickled(errand: Errand) -> bytes:
    """An errand as it is sent to another process."""
    try:
        return pickle.dumps(errand)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ReachcostError(
            f"the study of {errand.order.table} cannot be sent to another process ({error}): order its tables by a "
            "function at the top of a module that returns it"
        ) from error


class Answer(NamedTuple):
    """What became of an errand."""

    outcome: Result | Failure | Wanted | Encoded
    """What was asked for, or what kept it from being made."""
    warned: list[tuple[str, type[Warning]]]
    """What the user is to be warned of."""


class Clerk:
    """Does errands in one process. Functions cannot be sent there, names can: cells are found by walking their table.

    Args:
        here: Where to look.
        bring: Fetches latents that others encoded, if it can.
    """

    def __init__(self, here: Surroundings, bring: Bring = nothing_to_bring) -> None:
        self._scratch = here.scratch
        self._desk = Desk(here.out, Progress(), shared=here.scratch)
        self._found: dict[Order, dict[str, Cell]] = {}
        self._encoder = WorkersEncoder(bring)
        torch.set_num_threads(here.threads)
        use_device(here.device)

    def answer(self, errand: Errand) -> Answer:
        """Do an errand; whatever goes wrong is told."""
        with warnings.catch_warnings(record=True) as caught:
            try:
                outcome: Any = self._outcome(errand)
            except Exception as error:  # the others go on
                outcome = Failure(Failure.of(error).reason)  # an error of somebody else may not survive the journey
        return Answer(outcome, [(str(one.message), one.category) for one in caught])

    def _outcome(self, errand: Errand) -> Result | Wanted | Encoded:
        shard = errand.shard
        if shard is not None and (encoded := self._encoder.known(shard)) is not None:
            return encoded
        cell = self.find(errand.order, errand.cell)
        _require_same(errand, cell)
        return self._encoder.within(lambda: computed(cell.compute, self._scratch), shard)

    def find(self, order: Order, name: str) -> Cell:
        """A cell; what has been recorded since the last walk may lead to more of them."""
        if name not in self._found.get(order, {}):
            missing = self._desk.walk(order).missing.values()
            self._found[order] = {cell.name: cell for cell in missing}
        if name not in self._found[order]:
            raise ReachcostError(
                f"{order.table} does not ask for {name} in another process: let its code ask for the same runs always"
            )
        return self._found[order][name]


def _require_same(errand: Errand, cell: Cell) -> None:
    """Refuse a cell that would be another one here, as a file of the user's is not the same, or code draws lots."""
    if (ours := cell.settled) != errand.config:
        where, theirs, own = next(differences(json.loads(errand.config), json.loads(ours)), ("its form", "", ""))
        raise ReachcostError(
            f"{cell.name} would be another run in a worker ({where} is {own!r} there and {theirs!r} in the driver): "
            "let nothing change while it runs, and its code ask for the same always"
        )


def serve(connection: Connection, here: Surroundings) -> None:
    """Do errands until None comes or the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the driver decides
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    clerk = Clerk(here)
    with suppress(EOFError, OSError):
        while (asked := connection.recv()) is not None:
            connection.send(clerk.answer(asked))


def _end_with_the_driver() -> None:
    """A driver that was killed ends nobody, and its pipe is only looked at between two cells."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    os._exit(1)
