"""Time and quality of training a LeWM by the default plan.

`make bench-training` runs it on two idle cores; it writes `results/benchmarks/training.json`.
"""

import sys
import tempfile
import time
from pathlib import Path

from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.objectives import TrainingPlan
from reachcost.worldmodels.training import train_world_model
from reachcost_tools.bench.record import publish

LIMIT = 600
"""Target in seconds on two idle cores."""


def main() -> None:
    """Train, print and record."""
    logs = TwoRoom().generate_logs(episodes=10_000, seed=1)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        training = train_world_model(logs, Path(out) / "lewm", TrainingPlan()).card["training"]
    seconds = round(time.perf_counter() - start)
    publish("training", {"seconds": seconds, "plan": training["plan"], **training["metrics"]})
    print(f"LeWM trained in {seconds} s", training["metrics"])
    if seconds > LIMIT:
        sys.exit("slower than the target of ten minutes on two idle cores")


if __name__ == "__main__":
    main()
