"""SIGKILL of workers, nodes and the driver while a study is computed on a Ray cluster of this machine."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from reachcost.experiments.cells.ray_tasks import quiet
from reachcost_tools.faults import DATA
from reachcost_tools.faults.classes import Attempt
from tests.ray.nodes import Nodes
from tests.small import contents

ROOT = Path(__file__).parents[3]
NODES = 3
KILLS = 5
"""Number of kills during one study."""
PATIENCE = 600.0
"""Seconds after which a study counts as hanging."""


def nodes(count: int, scratch: Path) -> Iterator[Attempt]:
    """Kill workers, nodes and drivers, a few during each study, and compare its rows with undisturbed ones."""
    quiet()  # drivers inherit it
    file = DATA / "cluster_sweep.toml"
    driver = _driver(file, scratch / "undisturbed")
    if driver.wait(PATIENCE):
        yield Attempt("nothing is killed", f"exit code {driver.returncode}: {_errors(scratch / 'undisturbed')}")
        return
    expected, cluster = contents(scratch / "undisturbed"), Nodes(NODES)
    try:
        done = 0
        while done < count:
            out = scratch / f"disturbed-{done}"
            whats, wrong = _disturbed(file, out, cluster, range(done, min(done + KILLS, count)))
            if not wrong and contents(out) != expected:
                wrong = "rows differ from the undisturbed ones"
            yield from (Attempt(what, wrong) for what in whats)
            done += len(whats)
            if wrong and not whats:
                return
    finally:
        cluster.close()


def _disturbed(file: Path, out: Path, nodes: Nodes, numbers: range) -> tuple[list[str], str]:
    """Run the study while processes are killed; return which, and what was wrong about the outcome."""
    driver, whats = _driver(file, out, nodes.address), []
    for number in numbers:
        if what := _kill(random.Random(number), nodes, driver):
            whats.append(f"kill {number}: {what}")
        if what.startswith("the driver"):
            driver = _driver(file, out, nodes.address)
    while driver.wait(PATIENCE):
        errors = _errors(out)
        if len(errors.splitlines()) != 1 or not errors.startswith("reachcost: "):
            return whats, f"exit code {driver.returncode}: {errors}"
        driver = _driver(file, out, nodes.address)  # it failed with one sentence, and the same command resumes
    return whats, ""


def _kill(rng: random.Random, nodes: Nodes, driver: subprocess.Popen[bytes]) -> str:
    """Wait for workers and a random delay, then kill a process; return which, or nothing if the study is done."""
    deadline = time.monotonic() + PATIENCE
    while not nodes.workers() and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    delay, kind = rng.uniform(0, 3), rng.choice(("worker", "worker", "node", "node", "driver"))
    time.sleep(delay)
    workers = nodes.workers()
    if driver.poll() is not None or not workers:
        return ""
    victim = rng.choice(workers)
    if kind == "driver":
        driver.kill()
        driver.wait()
    elif kind == "worker":
        os.kill(victim, signal.SIGKILL)
    else:
        nodes.kill(nodes.number_of(victim))
    return f"the {kind} after {delay:.2f} s"


def _driver(file: Path, out: Path, address: str | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "reachcost", "sweep", str(file), "--trust", "--out", str(out)]
    where = ["--on", "ray", "--address", address] if address else []
    cache = {"REACHCOST_CACHE": str(out) + "-cache", "OMP_NUM_THREADS": "1"}
    with Path(f"{out}-errors").open("wb") as errors:
        return subprocess.Popen(
            [*command, *where], cwd=ROOT, env={**os.environ, **cache}, stdout=subprocess.DEVNULL, stderr=errors
        )


def _errors(out: Path) -> str:
    return Path(f"{out}-errors").read_text(encoding="utf-8", errors="replace").strip()
