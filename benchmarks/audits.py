"""SASC on TwoRoom with a bundled model: 100 episodes x 300 candidates x 10 costs.

Each pool is rolled out and executed once for all costs; beside it, in the same run, every cost on its own. Run it with
`make bench` on two idle cores; it writes `results/benchmarks/audits.json`.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import torch

from benchmarks.machine import publish
from benchmarks.planning import timed
from reachcost.audits.sasc import sasc
from reachcost.costs.head import HeadCost
from reachcost.costs.hybrid import HybridCost
from reachcost.costs.latent import LatentMSE
from reachcost.costs.probe import DecodedDistance, StandardisedL2, SubspaceCost
from reachcost.data.latents import encode_logs
from reachcost.data.probe import fit_probe
from reachcost.fitting.fit import fit
from reachcost.fitting.recipe import Recipe
from reachcost.fitting.temporal import TemporalPairs
from reachcost.protocols import TerminalCost
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.loading import load_world_model

LIMIT = 10
"""Seconds on two idle cores."""


def main() -> None:
    """Measure, print and record."""
    torch.set_num_threads(2)
    task, model = TwoRoom(), load_world_model("lewm-tworoom-3072")
    evaluation, latents = task.evaluation_set("high-distance"), encode_logs(model, task.generate_logs(500), cache=False)
    probe = fit_probe(latents.values, np.asarray(latents.logs.columns["state"]))
    pairs = TemporalPairs(latents, count=20_000)
    ours, paper = (HeadCost(fit(pairs, recipe)) for recipe in (Recipe(epochs=1), Recipe.paper(epochs=1, scale=50.0)))
    costs: dict[str, TerminalCost] = {
        "raw": LatentMSE(),
        "standardized-l2": StandardisedL2.of(latents.values),
        "decoded-xy": DecodedDistance(probe),
        "decoded-geodesic": DecodedDistance(probe, task.distance),
        "rowspace": SubspaceCost(probe),
        "residual": SubspaceCost(probe, residual=True),
        "trm": ours,
        "trm-paper": paper,
        "hybrid": HybridCost(LatentMSE(), paper),
        "our hybrid": HybridCost(LatentMSE(), ours),
    }
    together = min(timed(partial(sasc, task, model, costs, evaluation)) for _ in range(2))
    apart = sum(timed(partial(sasc, task, model, {name: cost}, evaluation)) for name, cost in costs.items())
    rows = {
        "seconds": round(together, 2),
        "seconds_one_cost_at_a_time": round(apart, 2),
        "ratio": round(apart / together, 2),
    }
    print("  ".join(f"{key} {value:,}" for key, value in rows.items()))
    publish("audits", rows)
    if together > LIMIT:
        sys.exit(
            f"slower than promised: 100 x 300 candidates under {len(costs)} costs within {LIMIT} s on two idle cores"
        )


if __name__ == "__main__":
    main()
