"""Cells on the nodes of a Ray cluster. They share no disk with the driver: what cells need travels by content."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from reachcost.base.atomic import sweep
from reachcost.base.devices import choose_device
from reachcost.base.machine import code_sha256, versions
from reachcost.base.places import expanded
from reachcost.data.kept import KeptLatents
from reachcost.data.latents import batches
from reachcost.errors import ReachcostError
from reachcost.studies.cells.cluster import Cluster
from reachcost.studies.cells.crew import Crew, Death
from reachcost.studies.cells.executor import Failure, Job
from reachcost.studies.cells.far import nodes_directory
from reachcost.studies.cells.parcels import PACKED, Cargo, Parcel, Sender, called, files_of_runs, own_files
from reachcost.studies.cells.worker import Answer, Errand, pickled

WORKER_DIED = Death("its worker process died", "", "memory may have run out, take fewer --workers", tries=4)
NODE_DIED = Death("the node of its worker died", "", "look after the cluster", tries=100)
"""The task can do nothing about it, so it is tried often."""
PATIENCE, ROOM = 2.0, 5.0
"""Seconds that workers have to tidy up, and to begin before others make room for them."""


@dataclass(eq=False)
class _Worker:
    actor: Any
    settling: Any
    """Will be why it cannot work, or nothing."""
    sent: set[str] = field(default_factory=set)
    """What it has."""


class OnRay(Crew[_Worker]):
    """Computes cells on a Ray cluster, one in each worker; whoever dies is replaced, wherever there is room.

    Args:
        out: The output directory; only the driver reads it.
        scratch: A directory for what cells write meanwhile; workers use another, on their node.
        workers: How many there are; by default as many as the cluster has cores (or GPUs, if they are to be used).
        address: Of an existing cluster (`auto`, `host:port`, `ray://host:port`); by default that of `RAY_ADDRESS`, and
            where there is none, a cluster of this machine is started, for as long as it is needed.
    """

    def __init__(self, out: Path, scratch: Path, workers: int | None = None, address: str | None = None) -> None:
        super().__init__()
        self._out, self._workers, self._driver = out, workers, uuid4().hex
        self._device = choose_device("auto")
        self._cluster = Cluster(address or os.environ.get("RAY_ADDRESS"), workers)
        self._ray = self._cluster.ray
        self._sender = Sender(self._ray.put)
        gpus = int(self._device.startswith("cuda"))
        self._unit = "GPU" if gpus else "CPU"
        self._actor = self._ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(_worker_class(self._ray))
        self._latents: dict[str, list[tuple[int, int, Parcel]]] = {}
        self._answers: dict[Any, _Worker] = {}

    @property
    def places(self) -> int:
        """How many workers the cluster has room for now, or as many as were asked for."""
        return self._workers or max(1, int(self._ray.cluster_resources().get(self._unit, 0)))

    def _start(self) -> _Worker:
        actor = self._actor.remote()
        expected = {**versions(), "code": code_sha256()}
        return _Worker(actor, actor.settle.remote(expected, self._driver, self._device))

    def _send(self, worker: _Worker, job: Job, errand: Errand) -> None:
        self._answers[worker.actor.answer.remote(self._cargo(worker, job, errand))] = worker

    def _cargo(self, worker: _Worker, job: Job, errand: Errand) -> Cargo:
        """What a worker needs for an errand and does not have."""
        reads, sent = job.order.reads, worker.sent
        runs = {name: path for name, path in files_of_runs(job, self._out).items() if f"run {name}" not in sent}
        files = {name: path for name, path in own_files(reads).items() if name not in sent}
        latents = {key: pieces for key, pieces in self._latents.items() if f"latents {key}" not in sent}
        sent |= {*(f"run {name}" for name in runs), *files, *(f"latents {key}" for key in latents)}
        searched = [called(Path(path)) for path in sys.path]
        return Cargo(
            pickled(errand),
            {name: self._sender.pack(path) for name, path in runs.items()},
            {name: self._sender.pack(path) for name, path in files.items()},
            {text: called(expanded(text)) for text in reads},
            [path for path in searched if any(name.startswith(f"{path}/") for name in files)],
            latents,
        )

    def _receive(self) -> tuple[_Worker, Answer | Death]:
        while not (ready := self._ray.wait([*self._answers], num_returns=1, timeout=ROOM)[0]):
            self._make_room()
        (answered,) = ready
        worker, errors = self._answers.pop(answered), self._ray.exceptions
        try:
            answer = self._ray.get(answered)
        except errors.RayTaskError as error:
            told = self._ray.get(worker.settling)
            answer = told or Answer(Failure(f"its worker failed ({str(error).strip().splitlines()[-1]})"), [])
        except errors.RayError as error:  # it died, or what it answered is lost with its node
            self._end(worker)
            return worker, NODE_DIED if "node has died" in str(error) else WORKER_DIED
        if isinstance(answer, str):
            raise ReachcostError(answer)
        if isinstance(answer.outcome, Failure):
            worker.sent.clear()  # perhaps something did not arrive
        return worker, answer

    def _make_room(self) -> None:
        """End idle workers where others wait to begin: they may hold the core that these wait for."""
        waiting = [worker for worker in self._busy if not self._ray.wait([worker.settling], timeout=0)[0]]
        for _ in waiting[: len(self._idle)]:
            self._end(self._idle.pop())

    def _share(self, kept: KeptLatents) -> None:
        if kept.missing():
            raise ReachcostError("kept latents changed while they were read: run the same command again")
        values = kept.read()
        rows = max(1, PACKED // values[:1].nbytes)
        self._latents[kept.key] = [
            (some.start, some.stop, self._sender.pack_bytes(values[some].tobytes()))
            for some in batches(slice(0, len(values)), rows)
        ]

    def _end(self, worker: _Worker) -> None:
        with suppress(Exception):  # it is dead, or the cluster is
            self._ray.kill(worker.actor)

    def close(self) -> None:
        """End the workers, and the cluster if it is ours: nothing of theirs is recorded."""
        super().close()
        for worker in self._busy:
            self._end(worker)
        with suppress(Exception):  # the cluster may be gone
            left = [worker.actor.leave.remote() for worker in self._idle]
            self._ray.wait([*left, self._ray.put(None)], num_returns=len(left) + 1, timeout=PATIENCE)
        for worker in self._idle:
            self._end(worker)
        self._idle, self._busy, self._answers = [], {}, {}
        self._cluster.close()
        with suppress(ReachcostError):  # there may be no worker of ours on this machine
            sweep(nodes_directory())


def _worker_class(ray: Any) -> type:
    """The class of workers; it is sent as it is, so that a node without reachcost can say so."""

    class Worker:
        def settle(self, expected: dict[str, str], driver: str, device: str) -> str:
            """Get ready; why it cannot, if so."""
            node = ray.get_runtime_context().get_node_id()
            where = f"a node of the cluster ({ray.util.get_node_ip_address()})"
            remedy = "install there what is installed here"
            self._wrong = f"{where} has no reachcost, or an old one: {remedy}"
            with suppress(ImportError, AttributeError):
                from reachcost.base.machine import code_sha256, versions

                found = {**versions(), "code": code_sha256()}
                differ = [name for name in expected if found.get(name) != expected[name]]
                said = {"code": "another state of the code of reachcost"}
                other = [said.get(name, f"{name} {found.get(name)} instead of {expected[name]}") for name in differ]
                self._wrong = f"{where} has {', '.join(other)}: {remedy}" if other else ""
            if not self._wrong:
                from reachcost.studies.cells.far import FarWorker

                try:
                    self._worker = FarWorker(f"{driver} {node}", 1, device, ray.get)
                except Exception as error:  # no room, another user's directory, no such device
                    self._wrong = f"{where} cannot begin ({error}): mend that, or take it out of the cluster"
            return self._wrong

        def answer(self, cargo: Any) -> Any:
            return self._wrong or self._worker.answer(cargo)

        def leave(self) -> None:
            if not self._wrong:
                self._worker.leave()

    return Worker
