"""The record of `reachcost bench`: every comparison with its spread, the machine, and whether promises are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reachcost.core.atomic import write_file
from reachcost.core.machine import machine, versions
from reachcost.core.progress import Progress
from reachcost_tools.bench.entry import Against, Entry
from reachcost_tools.bench.measure import Disagreement, Measured, matmul_peak, measure, peak_memory

THREADS = (1, 2)
"""Numbers of threads that comparisons use."""
PACKAGES = {"swm": ("stable-worldmodel", "transformers")}
"""Whose versions are told, by extra."""

BUSY = 0.35
"""Load per core from which a machine has other work: peers of as many threads as cores then wait for each other."""


def load_per_core() -> float:
    """Processes that ran or waited during the last minute, on average, per core."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def path_in(out: Path) -> Path:
    """Where the record is kept."""
    return out / "benchmarks" / "bench.json"


def run(
    entries: Sequence[Entry], against: Against | None, repeats: int | None, progress: Progress, left_out: Sequence[str]
) -> dict[str, Any]:
    """Measure all entries and return the record; a comparison whose sides disagree is told in `failed`.

    Args:
        entries: What to measure.
        against: The extra that brings peers, if its entries are among them.
        repeats: Times that each side is measured; by default what each entry says.
        progress: Told of every entry.
        left_out: Names of the entries that are not measured.
    """
    load = load_per_core()
    peaks = {threads: matmul_peak(threads) for threads in THREADS}
    lines: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for entry in entries:
        try:
            lines[entry.name] = line_of(entry, measure(entry, repeats or entry.repeats, progress), peaks)
        except Disagreement as error:
            failed[entry.name] = str(error)
    packages = PACKAGES[against] if against else ()
    return {
        "machine": machine(),
        "load_per_core_before": round(load, 2),
        "versions": {**versions(), **{name: version(name) for name in packages}},
        "matmul_peak_gflops": {str(threads): round(peak / 1e9, 1) for threads, peak in peaks.items()},
        "peak_memory_mb": round(peak_memory()),
        "ratios": {name: line["ratio"] for name, line in lines.items()},
        "targets": {entry.name: entry.target for entry in entries if entry.target is not None},
        "entries": lines,
        "failed": failed,
        "left_out": list(left_out),
    }


def line_of(entry: Entry, measured: Measured, peaks: dict[int, float]) -> dict[str, Any]:
    """What the record says of an entry; seconds are those of the fastest repeat, per unit."""
    threads, ours = measured.threads, min(measured.ours)
    line: dict[str, Any] = {
        "says": entry.says,
        "unit": entry.unit,
        "threads": threads,
        "repeats": len(measured.ours),
        "ours_seconds": rounded(ours),
        "peer_seconds": rounded(min(measured.peer)),
        "ratio": rounded(measured.ratio),
        "ratio_least": rounded(min(measured.ratios)),
        "ratio_most": rounded(max(measured.ratios)),
    }
    if measured.operations is not None:
        line["share_of_matmul_peak"] = round(measured.operations / ours / peaks[threads], 3)
    return line


def rounded(number: float) -> float:
    """Four digits: timers tell no more.

    >>> rounded(0.000123456), rounded(5220.83)
    (0.0001235, 5221.0)
    """
    return float(f"{number:.4g}")


def broken_promises(record: dict[str, Any]) -> list[str]:
    """What is slower than promised, and what could not be compared."""
    slow = [
        f"{name} {record['ratios'][name]:g} times as fast as its peer, promised {target:g}"
        for name, target in record["targets"].items()
        if name in record["ratios"] and record["ratios"][name] < target
    ]
    return [*slow, *record["failed"].values()]


def write(record: dict[str, Any], out: Path) -> Path:
    """Keep the record in a directory."""
    write_file(path_in(out), json.dumps(record, indent=2) + "\n")
    return path_in(out)
