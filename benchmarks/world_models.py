"""Training and encoding of the compact world model: frames per second, and the share of the machine's matmul peak.

The peak is measured in the same run, so the share says how much a better implementation could still gain.
Run it with `make bench`; it writes `results/benchmarks/world_models.json`. With `--train` it trains a whole LeWM by
the default plan (`make bench-training`) and writes `results/benchmarks/training.json`.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.machine import matmul_peak, operations, per_second, publish
from reachcost.data.latents import encode_logs
from reachcost.swm.package import import_stable_worldmodel
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.loading import load_world_model
from reachcost.worldmodels.training.objectives import sigreg
from reachcost.worldmodels.training.plan import TrainingPlan
from reachcost.worldmodels.training.train import Training, train_world_model

CACHE_ROWS = 632_749
"""Frames of the public cache."""


def speed() -> dict[str, dict[str, float]]:
    """Training and encoding with one and two threads."""
    logs, model = TwoRoom().generate_logs(episodes=1000), load_world_model("lewm-tworoom-3072")
    plan = TrainingPlan()
    training, steps = Training(logs, plan), itertools.count(1)
    training.enter(1)
    frames = plan.windows * plan.frames
    group = torch.zeros(model.parts.together, 64, 64, 3, dtype=torch.uint8)
    flops = {
        "training": operations(lambda: training.update(next(steps))) / frames,
        "encoding": operations(lambda: model.parts.embed(group)) / len(group),
    }
    rates: dict[str, dict[str, float]] = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        peak = matmul_peak()
        measured = {
            "training": per_second(lambda: training.update(next(steps)), frames, repeats=20),
            "encoding": per_second(lambda: encode_logs(model, logs, cache=False), logs.rows, repeats=3),
        }
        for name, rate in measured.items():
            row = {"frames_per_second": round(rate), "share_of_matmul_peak": round(rate * flops[name] / peak, 3)}
            rates[f"{name}, {threads} threads"] = row
    rates["milliseconds of an update, 1 thread"] = profile(training)
    return rates


def profile(training: Training) -> dict[str, float]:
    """Where the time of one update goes, each part by itself."""
    torch.set_num_threads(1)
    parts, plan, random = training.parts, training.plan, torch.Generator().manual_seed(0)
    pixels, actions = training.train.read(training.train.starts[: plan.windows])
    latents = torch.randn(plan.windows, plan.frames, parts.latent_dim, generator=random).requires_grad_()
    directions = torch.nn.functional.normalize(torch.randn(parts.latent_dim, plan.projections), dim=0)
    blocks = actions.flatten(0, 1)[:, None]

    def predict() -> None:
        before = latents.detach()[:, :-1].flatten(0, 1)[:, None]
        parts.predict(before, parts.embed_actions(blocks)).square().mean().backward()

    work = {
        "drawing frames": lambda: training.train.read(training.train.starts[: plan.windows]),
        "encoder and projector": lambda: parts.embed(pixels).square().mean().backward(),
        "predictor": predict,
        "SIGReg": lambda: torch.autograd.grad(sigreg(latents.transpose(0, 1), directions), latents),
        "clipping and AdamW": lambda: (
            torch.nn.utils.clip_grad_norm_(training.phase.trained, plan.clip),
            training.phase.optimizer.step(),
        ),
    }
    return {name: round(1000 / per_second(job, 1, repeats=10), 1) for name, job in work.items()}


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


def whole_training() -> None:
    """Train a LeWM by the default plan and record its time and quality."""
    logs = TwoRoom().generate_logs(episodes=10_000, seed=1)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        model = train_world_model(logs, Path(out) / "lewm", TrainingPlan())
    seconds = round(time.perf_counter() - start)
    publish(
        "training", {"seconds": seconds, "plan": model.card["training"]["plan"], **model.card["training"]["metrics"]}
    )
    print(f"a whole LeWM in {seconds} s", model.card["training"]["metrics"])
    if seconds > 600:
        sys.exit("slower than promised: ten minutes on two idle cores")


def main() -> None:
    """Measure, print and record."""
    if "--train" in sys.argv:
        whole_training()
        return
    rates = speed() | {"SIGReg passes per second, 1 thread": sigreg_beside_the_public_one()}
    for name, row in rates.items():
        print(f"{name:36}", "  ".join(f"{key} {value:,}" for key, value in row.items()))
    publish("world_models", rates)
    if CACHE_ROWS / rates["encoding, 2 threads"]["frames_per_second"] > 120:
        sys.exit("slower than promised: the public cache's 632,749 frames encoded in two minutes on two cores")


if __name__ == "__main__":
    main()
