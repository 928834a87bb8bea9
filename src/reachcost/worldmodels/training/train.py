"""Training a world model from logs: one loop for LeWM and PLDM, compact or paper-sized.

Checkpoints are kept by held-out prediction, never by how well a planner does with them. Every update draws its random
numbers from its own number, so an interrupted training that is resumed gives the same weights.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import choose_device
from reachcost.core.machine import versions
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator, torch_seed
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs, require_logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.results.records import exclusive
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts, ObjectArchitecture, ObjectParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public import PublicArchitecture, PublicParts
from reachcost.worldmodels.storage import read_world_model, write_world_model
from reachcost.worldmodels.training.phases import Joint, Phase, Refinement
from reachcost.worldmodels.training.plan import TrainingPlan
from reachcost.worldmodels.training.quality import Coordinates, prediction_error, state_error
from reachcost.worldmodels.training.resume import STATE, require_origin, resume, save
from reachcost.worldmodels.training.windows import Windows

MEASURED = 1000
"""Rows on which an encoder measures what it sees."""
HORIZON = 5
"""Action blocks over which held-out prediction is measured: the planning horizon."""


def train_world_model(
    logs: Logs,
    out: str | Path,
    plan: TrainingPlan | None = None,
    progress: Progress | bool | None = None,
    coordinates: Coordinates | None = None,
) -> JepaWorldModel:
    """Train a world model on logs into a new directory; a directory with an unfinished training is continued.

    A probe reads a task's `coordinates` of logged states for the model card; without them every number of a state.
    Writes `weights.safetensors`, `config.json`, `curve.csv` and a model card `README.md`.
    """
    require_logs(logs)
    plan, progress, out = plan or TrainingPlan(), as_progress(progress), Path(out)
    choose_device(plan.device)
    with exclusive(out), _threads(plan.threads):
        training = Training(logs, plan)
        if (out / "config.json").exists():
            progress.reused(f"{plan.kind} {plan.seed}")
            return _finished(out, training.origin)
        curve, best = _train(training, out / STATE, progress)
        training.parts.load_state_dict(best)
        training.parts.eval()
        write_world_model(out, training.parts, training.blocks, training.record(curve, coordinates), curve)
        return _finished(out, training.origin)


class Training:
    """Everything a training is made of, before its first update."""

    def __init__(self, logs: Logs, plan: TrainingPlan) -> None:
        self.plan = plan
        held_out = round(plan.holdout * len(logs))
        if not 0 < held_out < len(logs):
            raise ReachcostError(f"{len(logs)} episodes cannot be split at holdout {plan.holdout}: log more of them")
        stop = len(logs) - held_out
        self.blocks = ActionBlocks.of(logs, plan.action_block)
        torch.manual_seed(torch_seed(plan.seed, "world-model"))
        self.parts = build(plan, self.blocks.size, _sample(logs, stop)).to(plan.device)
        windows = {"logs": logs, "blocks": self.blocks, "read": self.parts.inputs}
        self.train = Windows(**windows, count=plan.frames, first=0, stop=stop)
        self.held_out = Windows(**windows, count=HORIZON + 1, first=stop, stop=len(logs))
        self.phase: Phase = Joint(self.parts, plan, self.train)
        self.origin = {
            "plan": asdict(plan),
            "logs_sha256": logs.fingerprint,
            "episodes": len(logs),
            "held_out_episodes": held_out,
            "versions": versions(),
        }

    def enter(self, step: int) -> None:
        """Begin the phase that update belongs to."""
        if step > self.plan.steps and isinstance(self.phase, Joint):
            self.phase = Refinement(self.parts, self.plan, self.train)
        self.phase.train()

    def update(self, step: int) -> dict[str, float]:
        """One gradient step."""
        first, length = (0, self.plan.steps) if step <= self.plan.steps else (self.plan.steps, self.plan.refinement)
        return self.phase.update(step, _schedule(step - first, length, self.plan.warmup))

    def validate(self) -> dict[str, float]:
        """Held-out prediction of the weights as they are."""
        self.phase.settle()
        return prediction_error(self.parts, self.held_out)

    def record(self, curve: Sequence[dict[str, float]], coordinates: Coordinates | None = None) -> dict[str, Any]:
        """What the model card says: origin, chosen step, and errors on held-out episodes."""
        chosen = min(curve, key=lambda point: point["rollout"])
        metrics = {"one_step": chosen["one_step"], "rollout": chosen["rollout"]}
        if "state" in self.train.logs.columns:
            metrics |= state_error(self.parts, self.train, self.held_out, coordinates)
        seconds = sum(point["seconds"] for point in curve)
        return {**self.origin, "best_step": chosen["step"], "metrics": metrics, "seconds": round(seconds)}


def build(plan: TrainingPlan, action_dim: int, sample: Observations) -> CompactParts | PublicParts:
    """The parts of the planned size, with fresh weights; some measure what they see on a sample of the logs."""
    if plan.size == "compact":
        return CompactParts(CompactArchitecture(action_dim=action_dim))
    if plan.size == "wide":
        return CompactParts(CompactArchitecture.wide(action_dim))
    if plan.size == "objects":
        own = np.asarray(sample["proprio"]).shape[1] if "proprio" in sample else None
        parts = ObjectParts(ObjectArchitecture(action_dim=action_dim, proprio=own))
        parts.measure(sample)
        return parts
    return PublicParts(PublicArchitecture(action_dim=action_dim, history=1))


def _sample(logs: Logs, stop: int) -> Observations:
    """Some rows of the episodes before one."""
    rows = int(logs.offsets[stop])
    return logs.observations(np.sort(generator(0, "measured").permutation(rows)[:MEASURED]))


def _train(training: Training, state: Path, progress: Progress) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    """Run the updates that are left; return the curve and the weights with the best held-out prediction."""
    plan = training.plan
    total = plan.steps + plan.refinement
    curve, best = resume(training, state)
    done = int(curve[-1]["step"]) if curve else 0
    progress.step(f"{plan.kind} {plan.seed}")
    span = _Span()
    for step in progress.track(range(done + 1, total + 1), ""):
        training.enter(step)
        losses = training.update(step)
        if not math.isfinite(losses["loss"]):
            raise ReachcostError(f"the loss became {losses['loss']} in update {step}: lower the learning rate")
        span.add(losses)
        frames = span.count * _frames(plan, step) / span.seconds
        progress.note(f"loss {span.point()['loss']:.3f} {frames:,.0f} frames/s")
        if step % plan.validate_every == 0 or step in (plan.steps, total):
            errors = training.validate()
            if not math.isfinite(errors["rollout"]):
                raise ReachcostError(f"held-out prediction is {errors['rollout']} after update {step}: lower the rate")
            if not curve or errors["rollout"] < min(before["rollout"] for before in curve):
                best = copy.deepcopy(training.parts.state_dict())
            curve.append({"step": step, **span.point(), **errors, "seconds": span.seconds})
            save(training, state, curve, best)
            span = _Span()
    return curve, best


class _Span:
    """Losses and time between two validations."""

    def __init__(self) -> None:
        self.count = 0
        self._sums: dict[str, float] = {}
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def add(self, losses: dict[str, float]) -> None:
        self.count += 1
        self._sums = {name: self._sums.get(name, 0.0) + value for name, value in losses.items()}

    def point(self) -> dict[str, float]:
        return {name: total / self.count for name, total in self._sums.items()}


def _frames(plan: TrainingPlan, step: int) -> int:
    """Frames that an update learns from."""
    return plan.windows * plan.frames if step <= plan.steps else 2 * plan.transitions


def _schedule(step: int, length: int, warmup: int) -> float:
    """Share of the peak learning rate: linear warm-up, then half a cosine."""
    return min(1.0, step / warmup) * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - 1) / length)))


def _finished(out: Path, origin: dict[str, Any]) -> JepaWorldModel:
    model = read_world_model(out)
    require_origin(out, model.card["training"], origin)
    (out / STATE).unlink(missing_ok=True)
    return model


class _threads:
    """Run torch on so many threads for a while, with random numbers of its own."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._before, self._state = torch.get_num_threads(), torch.get_rng_state()
        torch.set_num_threads(self._count)

    def __exit__(self, *exception: object) -> None:
        torch.set_num_threads(self._before)
        torch.set_rng_state(self._state)
