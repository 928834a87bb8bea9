"""Records of the benchmarks that `python -m` runs, in results/benchmarks."""

import json
from pathlib import Path
from typing import Any

from reachcost.core.files import write_file
from reachcost.core.machine import processor, versions

RESULTS = Path(__file__).parents[3] / "results" / "benchmarks"


def publish(benchmark: str, rates: dict[str, Any]) -> None:
    """Write the record of a benchmark to `results/benchmarks`."""
    document = {"benchmark": benchmark, "processor": processor(), "versions": versions(), "rates": rates}
    write_file(RESULTS / f"{benchmark}.json", json.dumps(document, indent=2) + "\n")
