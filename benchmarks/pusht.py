"""PushT against `swm/PushT-v1` of stable-worldmodel, in one process and one run: transitions and frames per second.

Run it with `python -m benchmarks.pusht`; it writes `results/benchmarks/pusht.json`. Both meet the contacts of logs, in
a third of the steps.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import gymnasium
import torch

from benchmarks.machine import per_second, publish
from reachcost.swm.package import import_stable_worldmodel
from reachcost.tasks.pusht import PushT


def main() -> None:
    """Measure both and print the ratios."""
    torch.set_num_threads(1)
    import_stable_worldmodel()
    warnings.simplefilter("ignore")
    theirs: Any = gymnasium.make("swm/PushT-v1").unwrapped
    ours = PushT(workers=1)
    logs = ours.generate_logs(200, seed=0)
    rows = logs.window_starts(2)
    states, actions = logs.columns["state"][rows], logs.columns["action"][rows]

    def their_steps() -> None:
        """Logged episodes, so that both meet the same contacts."""
        for episode in range(20):
            first = int(logs.offsets[episode])
            theirs._set_state(logs.columns["state"][first])
            for action in logs.columns["action"][first : first + 100]:
                theirs.step(action)

    def their_frames() -> None:
        for _ in range(100):
            theirs.render()

    theirs.reset(seed=0)
    rates = {
        "transitions per second": (
            per_second(lambda: ours.step(states, actions), len(states)),
            per_second(their_steps, 2000, repeats=3),
        ),
        "224 px frames per second": (
            per_second(lambda: ours.render(states[:300]), 300),
            per_second(their_frames, 100),
        ),
    }
    small = per_second(lambda: ours.render(states[:4000], 64), 4000)
    logged = per_second(lambda: ours.generate_logs(200, seed=1), 20_000, repeats=2)
    result = {
        name: {"ours": round(mine), "stable-worldmodel": round(other), "ratio": round(mine / other, 1)}
        for name, (mine, other) in rates.items()
    }
    result["64 px frames per second"] = {"ours": round(small)}
    result["logged steps per second and core"] = {"ours": round(logged)}
    for name, row in result.items():
        print(f"{name:34}", "   ".join(f"{key} {value:,}" for key, value in row.items()))
    publish("pusht", result)
    ratios = [result[name]["ratio"] for name in rates]
    if ratios[0] < 8 or ratios[1] < 10:
        sys.exit("slower than promised: 8 times the steps and 10 times the frames of stable-worldmodel")


if __name__ == "__main__":
    main()
