"""TwoRoom against `swm/TwoRoom-v1` of stable-worldmodel, in one process and one run: transitions and frames per second.

Run it with `make bench`; it writes `results/benchmarks/tworoom.json`.
"""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import torch

from benchmarks.machine import per_second, publish
from reachcost.swm.package import import_stable_worldmodel
from reachcost.tasks.tworoom import TwoRoom


def main() -> None:
    """Measure both and print the ratios."""
    torch.set_num_threads(1)
    import_stable_worldmodel()
    theirs, ours = gymnasium.make("swm/TwoRoom-v1").unwrapped, TwoRoom()
    theirs.reset(seed=0)
    rng = np.random.default_rng(0)
    states = rng.uniform(21, 203, (200_000, 2)).astype(np.float32)
    actions = rng.normal(0, 1, (200_000, 2)).astype(np.float32)

    def their_steps() -> None:
        for action in actions[:2000]:
            theirs.step(action)

    def their_frames() -> None:
        for _ in range(100):
            theirs.render()

    rates = {
        "transitions per second": (
            per_second(lambda: ours.step(states, actions), len(states)),
            per_second(their_steps, 2000),
        ),
        "224 px frames per second": (
            per_second(lambda: ours.render(states[:500]), 500),
            per_second(their_frames, 100),
        ),
    }
    small = per_second(lambda: ours.render(states[:4000], 64), 4000)
    result = {
        name: {"ours": round(mine), "stable-worldmodel": round(other), "ratio": round(mine / other, 1)}
        for name, (mine, other) in rates.items()
    }
    result["64 px frames per second"] = {"ours": round(small)}
    for name, row in result.items():
        print(f"{name:28}", "   ".join(f"{key} {value:,}" for key, value in row.items()))
    publish("tworoom", result)
    ratios = [result[name]["ratio"] for name in rates]
    if ratios[0] < 500 or ratios[1] < 10 or small < 10_000:
        sys.exit("slower than promised: 500 and 10 times stable-worldmodel, and 10,000 frames of 64 px per second")


if __name__ == "__main__":
    main()
