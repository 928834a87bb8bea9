"""A cluster of several node processes on this machine, some of which can be killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reachcost.studies.cells.cluster import quiet


class Nodes:
    """A cluster: its head computes nothing, every other node has one core.

    Args:
        count: How many others.
    """

    def __init__(self, count: int) -> None:
        quiet()
        from ray.cluster_utils import Cluster

        self._loopback = {"node_ip_address": "127.0.0.1", "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **self._loopback})
        for _ in range(count):
            self.add()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self) -> None:
        self._cluster.add_node(num_cpus=1, **self._loopback)

    def kill(self, number: int) -> None:
        """Kill all processes of a node, without a word, and add another one."""
        self._cluster.remove_node([*self._cluster.worker_nodes][number], allow_graceful=False)
        self.add()

    def number_of(self, worker: int) -> int:
        """On which node a worker process is."""
        parent = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
        raylets = [node.all_processes["raylet"][0].process.pid for node in self._cluster.worker_nodes]
        return raylets.index(parent)

    def workers(self) -> list[int]:
        """Processes of workers that compute."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    said: Any = (entry / "cmdline").read_bytes()
                    self.number_of(int(entry.name))
                except (OSError, ValueError):
                    continue
                found += [int(entry.name)] if said.startswith(b"ray::Worker") else []
        return found

    def close(self) -> None:
        self._cluster.shutdown()
