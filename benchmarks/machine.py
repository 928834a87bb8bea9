"""What every benchmark reports of the machine, and how it measures a rate."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from reachcost.base.atomic import write_file
from reachcost.base.machine import processor, versions

RESULTS = Path(__file__).parent.parent / "results" / "benchmarks"


def per_second(work: Callable[[], object], amount: float, repeats: int = 5) -> float:
    """Best rate of a few repeats, after one to warm up."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return amount / min(seconds)


def matmul_peak() -> float:
    """Floating-point operations per second of a large matrix product with torch's present number of threads."""
    a = torch.randn(2048, 2048)
    return per_second(lambda: a @ a, 2 * 2048**3)


def operations(work: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in some work."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def publish(benchmark: str, rates: dict[str, Any]) -> None:
    """Write the record of a benchmark to `results/benchmarks`."""
    document = {"benchmark": benchmark, "processor": processor(), "versions": versions(), "rates": rates}
    write_file(RESULTS / f"{benchmark}.json", json.dumps(document, indent=2) + "\n")
