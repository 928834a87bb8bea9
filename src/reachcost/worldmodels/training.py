"""Training a world model from logs: one loop for LeWM and PLDM, compact or paper-sized.

Checkpoints are kept by held-out prediction, never by how well a planner does with them. Every update draws its random
numbers from its own number, so an interrupted training that is resumed gives the same weights.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW

from reachcost.atomic import replaced_file
from reachcost.errors import ReachcostError
from reachcost.logs import Logs
from reachcost.progress import Progress
from reachcost.records import exclusive, versions
from reachcost.seeding import generator, torch_seed
from reachcost.worldmodels.actions import ActionBlocks
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.objectives import lewm_loss, pldm_loss
from reachcost.worldmodels.public import PublicArchitecture, PublicParts
from reachcost.worldmodels.quality import prediction_error, state_error
from reachcost.worldmodels.storage import read_world_model, write_world_model
from reachcost.worldmodels.windows import Windows

HORIZON = 5
"""Action blocks over which held-out prediction is measured: the planning horizon."""
BATCH_NORM_BATCHES = 32


@dataclass(frozen=True)
class TrainingPlan:
    """How a world model is trained."""

    kind: Literal["lewm", "pldm"] = "lewm"
    """The objective."""
    size: Literal["compact", "paper"] = "compact"
    """`compact` for two CPU cores; `paper` is the public ViT-tiny at 224 px, for a GPU."""
    seed: int = 3072
    """Of initial weights, windows and projections."""
    steps: int = 5000
    """Updates."""
    windows: int = 128
    """Windows of an update. SIGReg grows with it."""
    frames: int = 4
    """Frames of a window, one action block apart."""
    action_block: int = 5
    """Environment steps of an action block."""
    learning_rate: float = 1e-3
    """Peak of the warm-up and cosine schedule of AdamW."""
    weight_decay: float = 1e-3
    """Of AdamW."""
    warmup: int = 100
    """Updates until the peak."""
    clip: float = 1.0
    """Largest norm of a gradient."""
    projections: int = 512
    """Random directions of SIGReg."""
    holdout: float = 0.05
    """Share of the episodes, the last ones, that judge the model and are never trained on."""
    validate_every: int = 500
    """Updates between validations; each saves the state that a resumed training continues from."""
    threads: int = 2
    """CPU threads; more or fewer round differently."""
    device: str = "cpu"
    """Where to train; `cuda` for the paper's size."""

    def __post_init__(self) -> None:
        positive = ("steps", "windows", "learning_rate", "warmup", "clip", "projections", "validate_every", "threads")
        for name in (*positive, "action_block"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ReachcostError(f"training: {name} is {getattr(self, name)}: make it positive")
        if self.windows < 2 or self.frames < 2 or not 0 < self.holdout < 1:
            raise ReachcostError("training: needs two or more windows of two or more frames, and 0 < holdout < 1")

    @classmethod
    def paper(cls, **options: Any) -> TrainingPlan:
        """The public training script's settings: about ten passes over the public cache."""
        return replace(cls(size="paper", steps=50_000, learning_rate=5e-5, warmup=500, validate_every=2000), **options)


def train_world_model(
    logs: Logs, out: str | Path, plan: TrainingPlan | None = None, progress: Progress | None = None
) -> JepaWorldModel:
    """Train a world model on logs into a new directory; a directory with an unfinished training is continued.

    Writes `weights.safetensors`, `config.json`, `curve.csv` and a model card `README.md`.
    """
    plan, progress, out = plan or TrainingPlan(), progress or Progress(), Path(out)
    with exclusive(out), _threads(plan.threads):
        training = Training(logs, plan)
        if (out / "config.json").exists():
            return _finished(out, training.origin)
        curve, best = _train(training, out / "training.pt", progress)
        training.parts.load_state_dict(best)
        training.parts.to("cpu").eval().requires_grad_(False)
        write_world_model(out, training.parts, training.blocks, training.record(curve), curve)
        (out / "training.pt").unlink()
        return read_world_model(out)


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
        self.parts: Any = build(plan, self.blocks.size).to(plan.device)
        self.inverse = nn.Sequential(
            nn.Linear(2 * self.parts.latent_dim, 512), nn.ReLU(), nn.Linear(512, self.blocks.size)
        ).to(plan.device)
        windows = {"logs": logs, "blocks": self.blocks, "pixels": self.parts.pixels}
        self.train = Windows(**windows, count=plan.frames, first=0, stop=stop)
        self.held_out = Windows(**windows, count=HORIZON + 1, first=stop, stop=len(logs))
        self.trained = [*self.parts.parameters(), *(self.inverse.parameters() if plan.kind == "pldm" else ())]
        self.optimizer = AdamW(self.trained, lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True)
        self.origin = {
            "plan": asdict(plan),
            "logs_sha256": logs.fingerprint,
            "episodes": len(logs),
            "held_out_episodes": held_out,
            "versions": versions(),
        }

    def update(self, step: int) -> dict[str, float]:
        """One gradient step; everything random in it comes from (seed, step)."""
        plan = self.plan
        torch.manual_seed(torch_seed(plan.seed, "update", step))
        pixels, actions = self._batch(plan.windows, "windows", step)
        latents, predicted = self._predict(pixels, actions)
        if plan.kind == "lewm":
            directions = torch.randn(latents.shape[-1], plan.projections, device=latents.device)
            losses = lewm_loss(latents, predicted, functional.normalize(directions, dim=0))
        else:
            acted = self.inverse(torch.cat([latents[:, :-1], latents[:, 1:]], dim=-1))
            losses = pldm_loss(latents, predicted, acted, actions)
        for group in self.optimizer.param_groups:
            group["lr"] = plan.learning_rate * _schedule(step, plan)
        self.optimizer.zero_grad()
        losses["loss"].backward()
        nn.utils.clip_grad_norm_(self.trained, plan.clip)
        self.optimizer.step()
        return {name: value.item() for name, value in losses.items()}

    @torch.no_grad()
    def settle(self) -> None:
        """Estimate the BatchNorm statistics anew: while the weights move fast, those of the training are stale."""
        norms = [module for module in self.parts.modules() if isinstance(module, nn.BatchNorm1d)]
        momentum = [norm.momentum for norm in norms]
        self.parts.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain average over all batches
            norm.train()
        for batch in range(BATCH_NORM_BATCHES):
            self._predict(*self._batch(self.plan.windows, "batch-norm", batch))
        for norm, before in zip(norms, momentum, strict=True):
            norm.momentum = before
        self.parts.eval()

    def validate(self) -> dict[str, float]:
        """Held-out prediction of the weights as they are."""
        self.settle()
        errors = prediction_error(self.parts, self.held_out)
        self.parts.train()
        return errors

    def record(self, curve: Sequence[dict[str, float]]) -> dict[str, Any]:
        """What the model card says: origin, chosen step, and errors on held-out episodes."""
        chosen = min(curve, key=lambda point: point["rollout"])
        metrics = {"one_step": chosen["one_step"], "rollout": chosen["rollout"]}
        if "state" in self.train.logs.columns:
            metrics |= state_error(self.parts, self.train, self.held_out)
        seconds = sum(point["seconds"] for point in curve)
        return {**self.origin, "best_step": chosen["step"], "metrics": metrics, "seconds": round(seconds)}

    def _batch(self, size: int, purpose: str, step: int) -> tuple[Tensor, Tensor]:
        pixels, actions = self.train.draw(size, generator(self.plan.seed, purpose, step))
        return pixels.to(self.plan.device), actions.to(self.plan.device)

    def _predict(self, pixels: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Latents [N, T, D] of a batch, and those predicted for all but the first, each from the one before."""
        latents = self.parts.embed(pixels).view(len(actions), self.plan.frames, -1)
        before, embedded = latents[:, :-1].flatten(0, 1)[:, None], self.parts.embed_actions(actions)
        predicted = self.parts.predict(before, embedded.flatten(0, 1)[:, None])
        return latents, predicted.view(len(actions), self.plan.frames - 1, -1)


def build(plan: TrainingPlan, action_dim: int) -> nn.Module:
    """The parts of the planned size, with fresh weights."""
    if plan.size == "compact":
        return CompactParts(CompactArchitecture(action_dim=action_dim))
    return PublicParts(PublicArchitecture(action_dim=action_dim, history=1))


def _train(training: Training, state: Path, progress: Progress) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    """Run the updates that are left; return the curve and the weights with the best held-out prediction."""
    plan, parts = training.plan, training.parts
    curve, best = _resume(training, state)
    done = int(curve[-1]["step"]) if curve else 0
    parts.train()
    began, sums, since = time.perf_counter(), {}, done
    progress.step(f"{plan.kind} {plan.seed}")
    for step in progress.track(range(done + 1, plan.steps + 1), "updates"):
        losses = training.update(step)
        if not math.isfinite(losses["loss"]):
            raise ReachcostError(f"the loss became {losses['loss']} in update {step}: lower the learning rate")
        sums = {name: sums.get(name, 0.0) + value for name, value in losses.items()}
        seconds = time.perf_counter() - began
        frames = plan.windows * plan.frames * (step - since) / seconds
        parts_of_loss = " ".join(f"{name} {value:.3f}" for name, value in losses.items() if name != "loss")
        progress.note(f"{parts_of_loss} {frames:,.0f} frames/s")
        if step % plan.validate_every == 0 or step == plan.steps:
            point = {name: total / (step - since) for name, total in sums.items()}
            errors = training.validate()
            if not curve or errors["rollout"] < min(before["rollout"] for before in curve):
                best = copy.deepcopy(parts.state_dict())
            curve.append({"step": step, **point, **errors, "seconds": time.perf_counter() - began})
            _save(training, state, curve, best)
            began, sums, since = time.perf_counter(), {}, step
    return curve, best


def _schedule(step: int, plan: TrainingPlan) -> float:
    """Share of the peak learning rate: linear warm-up, then half a cosine."""
    return min(1.0, step / plan.warmup) * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - 1) / plan.steps)))


def _save(training: Training, path: Path, curve: list[dict[str, float]], best: dict[str, Tensor]) -> None:
    with replaced_file(path) as partial:
        torch.save(
            {
                "origin": training.origin,
                "curve": curve,
                "best": best,
                "parts": training.parts.state_dict(),
                "inverse": training.inverse.state_dict(),
                "optimizer": training.optimizer.state_dict(),
            },
            partial,
        )


def _resume(training: Training, path: Path) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    if not path.exists():
        return [], {}
    try:
        state = torch.load(path, weights_only=True, map_location=training.plan.device)
    except Exception as error:  # torch raises many kinds for a file that is not its own
        raise ReachcostError(f"{path} is not a training state ({error}): remove it to start again") from error
    _require_origin(path, state["origin"], training.origin)
    training.parts.load_state_dict(state["parts"])
    training.inverse.load_state_dict(state["inverse"])
    training.optimizer.load_state_dict(state["optimizer"])
    return state["curve"], state["best"]


def _finished(out: Path, origin: dict[str, Any]) -> JepaWorldModel:
    model = read_world_model(out)
    _require_origin(out, model.card["training"], origin)
    return model


def _require_origin(path: Path, recorded: dict[str, Any], origin: dict[str, Any]) -> None:
    for key, value in origin.items():
        if recorded.get(key) != value:
            raise ReachcostError(
                f"{path} was trained with {key} {recorded.get(key)}, not {value}: choose another --out, or remove it"
            )


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
