"""Records of benchmarks: every comparison of `reachcost bench`, and the results of those that `python -m` runs."""

import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reachcost.core.files import write_file
from reachcost.core.machine import machine, processor, versions
from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError
from reachcost_tools.bench.comparison import Against, Disagreement, Entry, matmul_peak, measure, peak_memory
from reachcost_tools.bench.learning import learning_entries
from reachcost_tools.bench.planning import planning_entries
from reachcost_tools.bench.worlds import world_entries

THREADS = (1, 2)
"""Numbers of threads that comparisons use."""
PACKAGES = {"swm": ("stable-worldmodel", "transformers")}
"""Packages whose versions are recorded, by extra."""
RESULTS = Path(__file__).parents[3] / "results" / "benchmarks"
BUSY = 0.35
"""Load per core from which a machine counts as busy: sides with as many threads as cores then wait for each other."""


def all_entries() -> list[Entry]:
    """Every comparison, in the order of the record."""
    return [*planning_entries(), *learning_entries(), *world_entries()]


def chosen(entries: Sequence[Entry], only: Sequence[str], against: Against | None) -> list[Entry]:
    """Entries whose names begin with one of `only`, by default all, without those that need another extra."""
    known = [entry.name for entry in entries]
    for wanted in only:
        if not any(name.startswith(wanted) for name in known):
            raise ReachcostError(
                f"there is no comparison {wanted!r}: choose one of {'; '.join(known)}, or the beginning of a name"
            )
    named = [entry for entry in entries if not only or entry.name.startswith(tuple(only))]
    found = [entry for entry in named if entry.against in (None, against)]
    if not found:
        raise ReachcostError(f"{named[0].name} is measured against stable-worldmodel: add --against {named[0].against}")
    return found


def load_per_core() -> float:
    """Mean number of processes per core that ran or waited during the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def path_in(out: Path) -> Path:
    """Path of the record."""
    return out / "benchmarks" / "bench.json"


def run(
    entries: Sequence[Entry], against: Against | None, repeats: int | None, progress: Progress, left_out: Sequence[str]
) -> dict[str, Any]:
    """Measure entries, by default with their own repeats, and return the record.

    Comparisons whose sides disagree are in `failed`; `left_out` names entries that are not measured.
    """
    load = load_per_core()
    peaks = {str(threads): round(matmul_peak(threads) / 1e9, 1) for threads in THREADS}
    rows: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for entry in entries:
        try:
            rows[entry.name] = measure(entry, repeats or entry.repeats, progress)
        except Disagreement as error:
            failed[entry.name] = str(error)
    packages = PACKAGES[against] if against else ()
    return {
        "machine": machine(),
        "load_per_core_before": round(load, 2),
        "versions": {**versions(), **{name: version(name) for name in packages}},
        "matmul_peak_gflops": peaks,
        "peak_memory_mb": round(peak_memory()),
        "ratios": {name: row["ratio"] for name, row in rows.items()},
        "targets": {entry.name: entry.target for entry in entries if entry.target is not None},
        "entries": rows,
        "failed": failed,
        "left_out": list(left_out),
    }


def missed_targets(record: dict[str, Any]) -> list[str]:
    """Comparisons that are slower than their target, or failed."""
    slow = [
        f"{name} {record['ratios'][name]:g} times as fast as its peer, target {target:g}"
        for name, target in record["targets"].items()
        if name in record["ratios"] and record["ratios"][name] < target
    ]
    return [*slow, *record["failed"].values()]


def write(record: dict[str, Any], out: Path) -> Path:
    """Write the record below a directory, and return its path."""
    write_file(path_in(out), json.dumps(record, indent=2) + "\n")
    return path_in(out)


def publish(benchmark: str, rates: dict[str, Any]) -> None:
    """Write the record of a benchmark that `python -m` runs to `results/benchmarks`."""
    document = {"benchmark": benchmark, "processor": processor(), "versions": versions(), "rates": rates}
    write_file(RESULTS / f"{benchmark}.json", json.dumps(document, indent=2) + "\n")
