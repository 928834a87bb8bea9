"""A cluster of several node processes on this machine, which can be killed; another process starts and ends it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from reachcost.experiments.cells.ray_tasks import quiet

ROOT = Path(__file__).parents[2]


class Nodes:
    """A cluster: its head computes nothing, every other node has one core.

    Args:
        count: Number of other nodes.
    """

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-m", "tests.ray.nodes", str(count)]
        self._keeper = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address, self._raylets = self._reported()

    def kill(self, number: int) -> None:
        """Kill all processes of a node, and add another node."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{number}\n")
        self._keeper.stdin.flush()
        self.address, self._raylets = self._reported()

    def number_of(self, worker: int) -> int:
        """Return the number of the node of a worker process."""
        parent = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
        return self._raylets.index(parent)

    def workers(self) -> list[int]:
        """Processes of workers that compute."""
        found = []
        for process in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            try:
                command = Path(f"/proc/{process}/cmdline").read_bytes()
                self.number_of(process)
            except (OSError, ValueError):
                continue
            found += [process] if command.startswith(b"ray::compute") else []
        return found

    def close(self) -> None:
        self._keeper.communicate()

    def _reported(self) -> tuple[str, list[int]]:
        assert self._keeper.stdout is not None
        address, raylets = json.loads(self._keeper.stdout.readline())
        return address, raylets


def keep(count: int) -> None:
    """Run a cluster: kill the nodes whose numbers are read, and write the address and the remaining nodes."""
    quiet()
    from ray.cluster_utils import Cluster

    loopback: dict[str, Any] = {"node_ip_address": "127.0.0.1", "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **loopback})
    nodes = [cluster.add_node(num_cpus=1, **loopback) for _ in range(count)]

    def report() -> None:
        raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
        sys.stdout.write(json.dumps([cluster.address, raylets]) + "\n")
        sys.stdout.flush()

    report()
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line)], allow_graceful=False)
        nodes[int(line)] = cluster.add_node(num_cpus=1, **loopback)
        report()
    cluster.shutdown()


if __name__ == "__main__":
    keep(int(sys.argv[1]))
