"""Training and encoding of the compact world model: frames per second, and the share of the machine's matmul peak.

The peak is measured in the same run, so the share says how much a better implementation could still gain.
Run it with `make bench`; it writes `results/benchmarks/world_models.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.machine import matmul_peak, per_second, publish
from reachcost.latents import encode_logs
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.objectives import sigreg
from reachcost.worldmodels.training import Training, TrainingPlan
from tests.swm_shim import import_stable_worldmodel

CACHE_ROWS = 632_749
"""Frames of the public cache."""


def operations(work: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in some work."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def main() -> None:
    """Measure with one and two threads and print."""
    logs = TwoRoom().generate_logs(episodes=1000)
    plan = TrainingPlan(seed=0)
    frames = plan.windows * plan.frames
    rates: dict[str, dict[str, float]] = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        training = Training(logs, plan)
        model = JepaWorldModel(Training(logs, plan).parts, training.blocks)
        steps = iter(range(1, 10**9))
        peak = matmul_peak()
        parts = logs.rows
        jobs: dict[str, tuple[Callable[[], object], int]] = {
            "training": (lambda training=training, steps=steps: training.update(next(steps)), frames),
            "encoding": (lambda model=model: encode_logs(model, logs, cache=False), parts),
        }
        for name, (work, amount) in jobs.items():
            flops = operations(work) / amount
            speed = per_second(work, amount, repeats=20 if name == "training" else 3)
            row = {"frames_per_second": round(speed), "share_of_matmul_peak": round(speed * flops / peak, 3)}
            rates[f"{name}, {threads} threads"] = row
            print(f"{name}, {threads} threads".ljust(24), "  ".join(f"{key} {value:,}" for key, value in row.items()))
    rates["sigreg, 1 thread"] = sigreg_beside_the_public_one()
    print("sigreg, 1 thread".ljust(24), rates["sigreg, 1 thread"])
    publish("world_models", rates)
    if CACHE_ROWS / rates["encoding, 2 threads"]["frames_per_second"] > 120:
        sys.exit("slower than promised: the public cache's 632,749 frames encoded in two minutes on two cores")


def sigreg_beside_the_public_one() -> dict[str, float]:
    """Forward and backward passes per second of SIGReg, ours and that of stable-worldmodel."""
    torch.set_num_threads(1)
    import_stable_worldmodel()
    from stable_worldmodel.wm.loss import SIGReg

    latents = torch.randn(4, 128, 192, requires_grad=True)
    directions = torch.nn.functional.normalize(torch.randn(192, 512), dim=0)
    public = SIGReg(knots=17, num_proj=512)
    ours = per_second(lambda: torch.autograd.grad(sigreg(latents, directions), latents), 1)
    theirs = per_second(lambda: torch.autograd.grad(public(latents), latents), 1)
    return {"ours": round(ours, 1), "stable-worldmodel": round(theirs, 1), "ratio": round(ours / theirs, 1)}


if __name__ == "__main__":
    main()
