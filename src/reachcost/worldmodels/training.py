"""Training of a world model on logs: one loop for LeWM and PLDM, for parts of every size.

The weights with the best held-out prediction are kept. The random numbers of an update depend on its number only, so a
resumed training gives the same weights.
"""

from __future__ import annotations

import copy
import csv
import io
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import choose_device
from reachcost.core.files import read_with_checksum, write_file, write_with_checksum
from reachcost.core.machine import versions
from reachcost.core.modules import write_module
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator, torch_seed
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs, require_logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.results.records import exclusive
from reachcost.worldmodels.compact import ObjectParts
from reachcost.worldmodels.jepa import JepaWorldModel, Parts
from reachcost.worldmodels.loading import FORMAT, SIZES, STATE, read_world_model
from reachcost.worldmodels.objectives import Joint, Phase, Refinement, TrainingPlan
from reachcost.worldmodels.windows import Coordinates, Windows, prediction_error, state_error

MEASURED = 1000  # rows on which `ObjectParts` measure background and colours
HORIZON = 5  # action blocks of a held-out prediction, the planning horizon
Curve = list[dict[str, float]]
METRICS = {
    "one_step": "squared error of the latent after one action block, relative to its variance",
    "rollout": "the same after five action blocks",
    "probe_r2": "R² of a linear probe of the logged state, mean over its coordinates",
    "probe_r2_least": "that of the coordinate it reads worst",
    "probe_rmse": "RMSE of that probe over all coordinates, in their units",
    "rollout_rmse": "the same of the state read out of the latent predicted after five action blocks",
}


def train_world_model(
    logs: Logs,
    out: str | Path,
    plan: TrainingPlan | None = None,
    progress: Progress | bool | None = None,
    coordinates: Coordinates | None = None,
) -> JepaWorldModel:
    """Train a world model on logs into a directory, or continue the unfinished training there; return the model.

    Writes `weights.safetensors`, `config.json`, `curve.csv` and a model card `README.md`.

    Args:
        logs: Logs of frames and actions.
        out: The directory.
        plan: Settings of the training.
        progress: True reports progress.
        coordinates: Function from states to the numbers that the probe of the model card reads; by default all.
    """
    require_logs(logs)
    plan, progress, out = plan or TrainingPlan(), as_progress(progress), Path(out)
    choose_device(plan.device)
    with exclusive(out), _threads(plan.threads):
        training = Training(logs, plan)
        if (out / "config.json").exists():
            progress.reused(f"{plan.kind} {plan.seed}")
        else:
            curve, best = _train(training, out / STATE, progress)
            training.parts.load_state_dict(best)
            training.parts.eval()
            write_world_model(out, training.parts, training.blocks, training.record(curve, coordinates), curve)
        model = read_world_model(out)
        _require_origin(out, model.card["training"], training.origin)
        (out / STATE).unlink(missing_ok=True)
        return model


class Training:
    """The state of a training: parts, windows, phase, and the origin that its record states."""

    def __init__(self, logs: Logs, plan: TrainingPlan) -> None:
        self.plan = plan
        held_out = round(plan.holdout * len(logs))
        if not 0 < held_out < len(logs):
            raise ReachcostError(f"{len(logs)} episodes cannot be split at holdout {plan.holdout}: log more of them")
        stop = len(logs) - held_out
        self.blocks = ActionBlocks.of(logs, plan.action_block)
        torch.manual_seed(torch_seed(plan.seed, "world-model"))
        rows = generator(0, "measured").permutation(int(logs.offsets[stop]))[:MEASURED]
        self.parts = build(plan, self.blocks.size, logs.observations(np.sort(rows))).to(plan.device)
        self.train = Windows(logs, self.blocks, self.parts.inputs, plan.frames, (0, stop))
        self.held_out = Windows(logs, self.blocks, self.parts.inputs, HORIZON + 1, (stop, len(logs)))
        self.phase: Phase = Joint(self.parts, plan, self.train)
        self.origin = {
            "plan": asdict(plan),
            "logs_sha256": logs.fingerprint,
            "episodes": len(logs),
            "held_out_episodes": held_out,
            "versions": versions(),
        }

    def enter(self, step: int) -> None:
        """Start the phase of an update."""
        if step > self.plan.steps and isinstance(self.phase, Joint):
            self.phase = Refinement(self.parts, self.plan, self.train)

    def update(self, step: int) -> dict[str, float]:
        """Take one gradient step; return its losses."""
        self.enter(step)
        first, length = (0, self.plan.steps) if step <= self.plan.steps else (self.plan.steps, self.plan.refinement)
        return self.phase.update(step, _schedule(step - first, length, self.plan.warmup))

    def validate(self) -> dict[str, float]:
        """Return the held-out prediction errors of the present weights."""
        self.phase.settle()
        return prediction_error(self.parts, self.held_out)

    def record(self, curve: Curve, coordinates: Coordinates | None = None) -> dict[str, Any]:
        """Return the training record: origin, chosen step, and errors on held-out episodes."""
        chosen = min(curve, key=lambda point: point["rollout"])
        metrics = {"one_step": chosen["one_step"], "rollout": chosen["rollout"]}
        if "state" in self.train.logs.columns:
            metrics |= state_error(self.parts, self.train, self.held_out, coordinates)
        seconds = sum(point["seconds"] for point in curve)
        return {**self.origin, "best_step": chosen["step"], "metrics": metrics, "seconds": round(seconds)}


def build(plan: TrainingPlan, action_dim: int, sample: Observations) -> Parts:
    """Return new parts of the planned size; `ObjectParts` measure a sample of the logs."""
    new_architecture, parts_class = SIZES[plan.size]
    if not issubclass(parts_class, ObjectParts):
        return parts_class(new_architecture(action_dim=action_dim))
    proprio = sample["proprio"].shape[1] if "proprio" in sample else None
    parts = parts_class(new_architecture(action_dim=action_dim, proprio=proprio))
    parts.measure(sample)
    return parts


def _train(training: Training, state: Path, progress: Progress) -> tuple[Curve, dict[str, Tensor]]:
    """Run the remaining updates; return the curve and the weights with the best held-out prediction."""
    plan = training.plan
    total = plan.steps + plan.refinement
    curve, best = restore_state(training, state)
    done = int(curve[-1]["step"]) if curve else 0
    progress.step(f"{plan.kind} {plan.seed}")
    losses, began = [], time.perf_counter()
    for step in progress.track(range(done + 1, total + 1), ""):
        losses.append(training.update(step))
        if not math.isfinite(losses[-1]["loss"]):
            raise ReachcostError(f"the loss became {losses[-1]['loss']} in update {step}: lower the learning rate")
        frames = plan.windows * plan.frames if step <= plan.steps else 2 * plan.transitions
        seconds = time.perf_counter() - began
        progress.note(f"loss {_mean(losses)['loss']:.3f} {len(losses) * frames / seconds:,.0f} frames/s")
        if step % plan.validate_every == 0 or step in (plan.steps, total):
            errors = training.validate()
            if not math.isfinite(error := errors["rollout"]):
                raise ReachcostError(f"the held-out error is {error} after update {step}: lower the learning rate")
            if error < min((before["rollout"] for before in curve), default=math.inf):
                best = copy.deepcopy(training.parts.state_dict())
            curve.append({"step": step, **_mean(losses), **errors, "seconds": time.perf_counter() - began})
            save_state(training, state, curve, best)
            losses, began = [], time.perf_counter()
    return curve, best


def _mean(losses: list[dict[str, float]]) -> dict[str, float]:
    """Mean of each loss, summed in the order of the updates."""
    return {name: sum(each[name] for each in losses) / len(losses) for name in losses[0]}


def _schedule(step: int, length: int, warmup: int) -> float:
    """Share of the peak learning rate: linear warm-up, then half a cosine."""
    return min(1.0, step / warmup) * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - 1) / length)))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Run torch on `count` threads, and restore threads and random state afterwards."""
    before, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_rng_state(state)


def save_state(training: Training, path: Path, curve: Curve, best: dict[str, Tensor]) -> None:
    """Write the state from which an interrupted training is resumed."""
    inverse = training.phase.inverse
    state = {
        "origin": training.origin,
        "curve": curve,
        "best": best,
        "parts": training.parts.state_dict(),
        "optimizer": training.phase.optimizer.state_dict(),
        "inverse": inverse.state_dict() if inverse is not None else {},
    }
    content = io.BytesIO()
    torch.save(state, content)
    write_with_checksum(path, content.getvalue())


def restore_state(training: Training, path: Path) -> tuple[Curve, dict[str, Tensor]]:
    """Restore a training from a saved state, if there is one; return its curve and its best weights."""
    if not path.exists():
        return [], {}
    try:
        state = torch.load(io.BytesIO(read_with_checksum(path)), weights_only=True, map_location=training.plan.device)
        _require_origin(path, state["origin"], training.origin)
        training.parts.load_state_dict(state["best"])  # to check that they fit
        training.parts.load_state_dict(state["parts"])
        training.enter(int(state["curve"][-1]["step"]))
        if training.phase.inverse is not None:
            training.phase.inverse.load_state_dict(state["inverse"])
        optimizer = training.phase.optimizer
        optimizer.load_state_dict(state["optimizer"])
        for weight, moments in optimizer.state.items():  # other shapes would end the process
            if any(moment.ndim and moment.shape != weight.shape for moment in moments.values()):
                raise ValueError("its optimiser belongs to other weights")
        return state["curve"], state["best"]
    except ReachcostError:
        raise
    except Exception as error:  # torch raises many kinds of exceptions for other files
        reason = str(error).partition("\n")[0]
        raise ReachcostError(f"{path} is not a complete training state ({reason}): remove it to start again") from error


def _require_origin(path: Path, recorded: dict[str, Any], origin: dict[str, Any]) -> None:
    for key, value in origin.items():
        before = recorded.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            _require_origin(path, before, value)
        elif before != value:
            raise ReachcostError(f"{path} was trained with {key} {before}, not {value}: choose another --out")


def write_world_model(
    directory: Path, parts: Parts, actions: ActionBlocks, training: dict[str, Any], curve: Curve
) -> None:
    """Write a trained model into an existing directory."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(curve[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{value:.6g}" for key, value in point.items()} for point in curve)
    write_file(directory / "curve.csv", text.getvalue())
    write_file(directory / "README.md", _model_card(training, sum(weight.numel() for weight in parts.parameters())))
    config = {
        "format": FORMAT,
        "kind": training["plan"]["kind"],
        "size": training["plan"]["size"],
        "architecture": asdict(parts.architecture),
        "actions": asdict(actions),
        "training": training,
    }
    write_module(directory, parts, config)


def _model_card(training: dict[str, Any], weights: int) -> str:
    plan = training["plan"]
    rows = "\n".join(f"| {name} | {value:.5g} | {METRICS[name]} |" for name, value in training["metrics"].items())
    default = asdict(TrainingPlan.of_size(plan["size"]))
    changed = [name for name, value in plan.items() if value != default[name] and name not in ("kind", "size", "seed")]
    options = "".join(f" --{name} {plan[name]}" for name in ("size", "seed", *changed))
    updates = f"{training['best_step']:,} of {plan['steps'] + plan['refinement']:,}"
    packages = ", ".join(f"{name} {version}" for name, version in training["versions"].items())
    return f"""# {plan["kind"].upper()} {plan["seed"]} ({plan["size"]})

A joint-embedding world model trained by reachcost, {weights:,} weights. Loading it runs no code: the weights are
safetensors, `config.json` is data, and both carry one checksum.

    reachcost train-model {plan["kind"]} --task TASK --logs FILE --out DIR{options}

| metric | value | on held-out episodes |
| --- | --- | --- |
{rows}

* Logs: {training["episodes"]:,} episodes, the last {training["held_out_episodes"]:,} of them held out;
  sha256 of their states and actions `{training["logs_sha256"]}`
* Kept: the weights of update {updates}, by held-out prediction (`rollout`)
* Time: {training["seconds"]} s; {packages}
* Not for anything but research on planning in the task it was trained on.
"""
