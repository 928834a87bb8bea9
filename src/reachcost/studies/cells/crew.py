"""Workers, wherever they are: who does what, who died, and which latents they make together before cells go on."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from reachcost.base.cache import cache_directory
from reachcost.data.kept import KeptLatents
from reachcost.errors import ReachcostError
from reachcost.results.records import Result
from reachcost.studies.cells.encoding import Encoded, Encoding, Shard, Wanted
from reachcost.studies.cells.executor import Failure, Job
from reachcost.studies.cells.worker import Answer, Errand

Worker = TypeVar("Worker", bound=Hashable)


class Death(NamedTuple):
    """What a worker is found to be instead of an answer."""

    how: str
    """Who died, in words."""
    told: str
    """What else is known of it."""
    remedy: str
    """What to do about it if it happens often."""
    tries: int
    """How often a task is begun whose workers die like that."""


class Task(NamedTuple):
    """What one worker does at a time: a cell, or some of the latents that it needs."""

    job: Job
    shard: Shard | None = None


class Crew(ABC, Generic[Worker]):
    """An executor that computes cells by workers; those that die are replaced, and their task is given to others."""

    def __init__(self) -> None:
        self._todo: deque[Task] = deque()
        self._idle: list[Worker] = []
        self._busy: dict[Worker, Task] = {}
        self._deaths: Counter[tuple[Path, Shard | None, str]] = Counter()
        self._awaiting: dict[str, list[Job]] = {}
        self._wanted: dict[str, Wanted] = {}
        self._encoding: Encoding | None = None
        self._settled: deque[tuple[Job, Failure]] = deque()

    # What a place for workers offers

    @property
    @abstractmethod
    def places(self) -> int:
        """How many workers there may be."""

    @abstractmethod
    def _start(self) -> Worker: ...

    @abstractmethod
    def _send(self, worker: Worker, job: Job, errand: Errand) -> None:
        """Ask a worker for something; if it is dead, `_receive` will find out."""

    @abstractmethod
    def _receive(self) -> tuple[Worker, Answer | Death]:
        """Wait for the next of those that are busy that answers or dies."""

    def _share(self, kept: KeptLatents) -> None:
        """Latents are complete; workers who do not see where they are kept must be sent them."""

    # What is made of it

    @property
    def beside(self) -> str:
        """How far the latents are that cells wait for."""
        encoding = self._encoding  # another thread may ask
        return "" if encoding is None else str(encoding)

    def begin(self, job: Job) -> None:
        """Hand a cell to a worker."""
        self._todo.append(Task(job))
        self._hand_out()

    def finish(self) -> tuple[Job, Result | Failure]:
        """Wait until a cell is done; latents that cells want are made meanwhile."""
        while not self._settled:
            self._hand_out()
            worker, answer = self._receive()
            task = self._busy.pop(worker)
            outcome = self._after(answer, task) if isinstance(answer, Death) else self._heard(worker, answer)
            if isinstance(outcome, Wanted):
                self._await(task.job, outcome)
            elif isinstance(outcome, Encoded):
                self._keep(outcome)
            elif task.shard is not None and isinstance(outcome, Failure):
                self._give_up(task.shard, outcome)
            elif outcome is not None:
                return task.job, outcome
        return self._settled.popleft()

    def _hand_out(self) -> None:
        while self._todo and len(self._busy) < self.places:
            worker = self._idle.pop() if self._idle else self._start()
            task = self._busy[worker] = self._todo.popleft()
            cell = task.job.cell
            self._send(worker, task.job, Errand(task.job.order, cell.name, cell.settled, task.shard))

    def _heard(self, worker: Worker, answer: Answer) -> Result | Failure | Wanted | Encoded:
        self._idle.append(worker)
        for text, category in answer.warned:
            warnings.warn(text, category, stacklevel=2)
        return answer.outcome

    def _after(self, death: Death, task: Task) -> Failure | None:
        """Try again what a worker died of, or was only near when it died."""
        which = task.job.cell.path, task.shard, death.how
        self._deaths[which] += 1
        if self._deaths[which] < death.tries:
            self._todo.appendleft(task)
            return None
        return Failure(f"{death.how} {death.tries} times{death.told}: {death.remedy}")

    # Latents, one after the other: whoever waits for another driver's holds none that this one may wait for

    def _await(self, job: Job, wanted: Wanted) -> None:
        key = KeptLatents(cache_directory(), wanted.origin).key
        self._wanted[key] = wanted
        self._awaiting.setdefault(key, []).append(job)
        self._encode()

    def _encode(self) -> None:
        """Begin with the latents that were wanted first; if they are there, their cells go on."""
        while self._encoding is None and self._awaiting:
            key = next(iter(self._awaiting))
            try:
                self._encoding = Encoding(self._wanted[key])
            except ReachcostError as error:
                self._settled.extend((job, Failure.of(error)) for job in self._awaiting.pop(key))
                continue
            self._todo.extendleft(Task(self._awaiting[key][0], shard) for shard in reversed(self._encoding.shards))
            self._go_on()

    def _keep(self, encoded: Encoded) -> None:
        if self._encoding is not None and encoded.shard.key == self._encoding.kept.key:
            try:
                self._encoding.write(encoded)
            except ReachcostError as error:
                self._give_up(encoded.shard, Failure.of(error))
            else:
                self._go_on()
                self._encode()

    def _go_on(self) -> None:
        """Let cells go on whose latents are complete."""
        if self._encoding is not None and self._encoding.complete:
            self._share(self._encoding.kept)
            self._todo.extendleft(Task(job) for job in reversed(self._end_encoding()))

    def _give_up(self, shard: Shard, failure: Failure) -> None:
        """Let cells fail whose latents cannot be encoded."""
        if self._encoding is not None and shard.key == self._encoding.kept.key:
            self._todo = deque(task for task in self._todo if task.shard is None)
            self._settled.extend((job, failure) for job in self._end_encoding())
            self._encode()

    def _end_encoding(self) -> list[Job]:
        assert self._encoding is not None
        encoding, self._encoding = self._encoding, None
        with suppress(ReachcostError):  # what could not be written was told of
            encoding.close()
        return self._awaiting.pop(encoding.kept.key)

    def close(self) -> None:
        """Let others write what this one did."""
        if self._encoding is not None:
            self._encoding.close()
