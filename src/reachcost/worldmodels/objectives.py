"""Training objectives of world models: their settings, the losses of LeWM and PLDM, and the two training phases.

Both objectives predict the next latent and have a term against collapse. LeWM uses SIGReg: every random projection of a
batch of latents should look like a standard normal variable. PLDM uses variance and covariance (VICReg), temporal
alignment and inverse dynamics. Weights are those of the public training scripts.

The first phase trains all parts together. The second trains the predictor alone on latents that are encoded once, so it
learns from many more transitions in the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.optim import AdamW

from reachcost.core.seeding import generator, torch_seed
from reachcost.errors import ReachcostError
from reachcost.heads.recipe import require_positive
from reachcost.worldmodels.jepa import Parts, predicted_path
from reachcost.worldmodels.windows import Windows

Size = Literal["compact", "wide", "objects", "paper"]
KNOTS, SPAN = 17, 3.0
"""Number of points from 0 to SPAN at which SIGReg compares characteristic functions."""
MOVING = 0.5  # share of a latent's variance within a world, when there are several worlds
PLDM_WEIGHTS = {"prediction": 1.0, "std": 18.0, "std_time": 0.7, "covariance": 12.0, "alignment": 0.2, "inverse": 1.0}
BATCH_NORM_BATCHES = 32  # batches for an estimate of BatchNorm statistics
ENCODED_TOGETHER = 1024


@dataclass(frozen=True)
class TrainingPlan:
    """Settings of a training. The defaults are for the compact size on two CPU cores."""

    kind: Literal["lewm", "pldm"] = "lewm"
    size: Size = "compact"
    """`compact` for two CPU cores, `wide` for logs of many worlds, `objects` for worlds of few moving colours, `paper`
    for the public ViT-tiny at 224 px on a GPU."""
    seed: int = 3072
    steps: int = 3000  # updates of all parts together
    refinement: int = 4000  # updates of the predictor alone, afterwards
    windows: int = 128  # Windows per update. SIGReg grows with it.
    worlds: int = 0
    """Number of worlds per update, with equally many windows each, for logs of several worlds (column `world_idx`).
    SIGReg is then also computed within each world. 0 mixes all windows."""
    frames: int = 4  # frames of a window, one action block apart
    transitions: int = 1024  # transitions per update of the predictor alone
    ahead: int = 1  # action blocks that the predictor alone learns to predict from its own predictions
    action_block: int = 5  # environment steps of an action block
    learning_rate: float = 1e-3  # peak of AdamW's schedule (warm-up, then cosine) for all parts together
    refinement_rate: float = 1e-3  # the same for the predictor alone
    weight_decay: float = 1e-3
    warmup: int = 100  # updates until the peak
    clip: float = 1.0  # maximum norm of a gradient
    projections: int = 512  # random directions of SIGReg
    holdout: float = 0.05  # share of the episodes, the last ones, for validation only
    validate_every: int = 500  # Updates between validations. Each saves the state from which a training is resumed.
    threads: int = 2  # CPU threads. Another number rounds differently.
    device: str = "cpu"

    def __post_init__(self) -> None:
        counts = ("steps", "transitions", "ahead", "action_block", "warmup", "projections", "validate_every", "threads")
        require_positive(self, "training", *counts, "learning_rate", "refinement_rate", "clip")
        if self.kind not in ("lewm", "pldm") or self.size not in get_args(Size):
            sizes = ", ".join(get_args(Size))
            raise ReachcostError(f"training: no {self.kind!r} of size {self.size!r}: choose lewm or pldm, and {sizes}")
        if self.worlds < 0 or (self.worlds and self.windows % self.worlds):
            raise ReachcostError(
                f"training: worlds is {self.worlds}: give a divisor of the {self.windows} windows, or 0"
            )
        if self.windows < 2 or self.frames < 2 or self.refinement < 0 or not 0 < self.holdout < 1:
            raise ReachcostError(
                "training: needs two or more windows of two or more frames, refinement >= 0, and 0 < holdout < 1"
            )

    @classmethod
    def of_size(cls, size: Size, **changes: Any) -> TrainingPlan:
        """Settings of a size, with changes; `paper` makes about ten passes over the data of the public script."""
        return cls(**{"size": size, **SETTINGS[size], **changes})


SETTINGS: dict[Size, dict[str, Any]] = {
    "compact": {},
    "wide": {"steps": 6000, "refinement": 10_000, "worlds": 16, "ahead": 3},
    "objects": {"steps": 1500, "refinement": 6000, "refinement_rate": 6e-3, "validate_every": 1000},
    "paper": {"steps": 50_000, "refinement": 0, "learning_rate": 5e-5, "warmup": 500, "validate_every": 2000},
}
"""Settings of each size that are not the default."""


def sigreg(latents: Tensor, directions: Tensor) -> Tensor:
    """Epps-Pulley distance of projected latents to a standard normal, averaged over time steps and directions.

    Shape: latents [T, N, D], directions [D, P] of length one -> scalar.

    >>> _ = torch.manual_seed(0)
    >>> directions = functional.normalize(torch.randn(8, 64), dim=0)
    >>> bool(sigreg(torch.randn(1, 500, 8), directions) < sigreg(torch.zeros(1, 500, 8), directions))
    True
    """
    return _EppsPulley.apply(latents @ directions)


class _EppsPulley(torch.autograd.Function):
    """N x integral of |characteristic function - that of a normal|^2 under a normal window, by the trapezoid rule.

    The knots are multiples of one step, so the Chebyshev recurrence gives all cosines and sines from the first. The
    backward pass sums the two series by Clenshaw's recurrence. This is four times as fast as the direct formula with
    automatic differentiation.
    """

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        step = SPAN / (KNOTS - 1)
        t = step * torch.arange(KNOTS, dtype=x.dtype, device=x.device)
        normal = torch.exp(-t.square() / 2)
        weights = 2 * step * normal
        weights[[0, -1]] /= 2
        cosine, sine = torch.cos(step * x), torch.sin(step * x)
        twice = 2 * cosine
        previous, current = (torch.ones_like(cosine), torch.zeros_like(sine)), (cosine, sine)
        means = [torch.stack([old[:, 0] for old in previous])]
        for _ in range(1, KNOTS):
            means.append(torch.stack([new.mean(1) for new in current]))
            following = tuple((twice * new).sub_(old) for old, new in zip(previous, current, strict=True))
            previous, current = current, following
        mean_cosine, mean_sine = torch.stack(means, dim=1)  # each [K, T, P]
        real, imaginary = mean_cosine - normal[:, None, None], mean_sine
        ctx.save_for_backward(t, weights, cosine, sine, real, imaginary)
        return torch.einsum("k,ktp->tp", weights, real.square() + imaginary.square()).mean() * x.shape[1]

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[override]
        t, weights, cosine, sine, real, imaginary = ctx.saved_tensors
        factor = gradient * 2 * (weights * t)[:, None, None] / real[0].numel()
        return _series(cosine, sine, (factor * imaginary)[:, :, None], (-factor * real)[:, :, None])


def _series(cosine: Tensor, sine: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Sum over k of a_k cos(k x) + b_k sin(k x), from cos x and sin x [T, N, P] and coefficients [K, T, 1, P]."""
    twice = 2 * cosine
    first = [torch.zeros_like(cosine), torch.zeros_like(cosine)]
    second = [torch.zeros_like(cosine), torch.zeros_like(cosine)]
    for k in range(len(a) - 1, 0, -1):
        for series, coefficients in ((first, a), (second, b)):
            following = torch.addcmul(coefficients[k] - series[1], twice, series[0])
            series[1], series[0] = series[0], following
    return a[0] + cosine * first[0] - first[1] + sine * second[0]


def lewm_loss(
    latents: Tensor, predicted: Tensor, directions: Tensor, weight: float = 0.09, worlds: int = 0
) -> dict[str, Tensor]:
    """Losses of LeWM: latents [N, T, D], predictions [N, T - 1, D] of those after the first, directions [D, P].

    With several worlds, windows are sorted by world, and SIGReg is also computed on differences from the mean of each
    world. Otherwise differences between worlds, which are constant and easy to predict, would fill the latent.
    """
    prediction = functional.mse_loss(predicted, latents[:, 1:])
    regular = sigreg(latents.transpose(0, 1), directions)
    if worlds:
        by_world = latents.reshape(worlds, -1, latents.shape[-1])
        moving = (by_world - by_world.mean(1, keepdim=True)).view_as(latents) / MOVING**0.5
        regular = (regular + sigreg(moving.transpose(0, 1), directions)) / 2
    return {"loss": prediction + weight * regular, "prediction": prediction, "sigreg": regular}


def pldm_loss(latents: Tensor, predicted: Tensor, acted: Tensor, actions: Tensor) -> dict[str, Tensor]:
    """Losses of PLDM: latents [N, T, D], predictions [N, T - 1, D], actions inferred and taken [N, T - 1, A]."""
    centred = latents - latents.mean(0, keepdim=True)
    terms = {
        "prediction": functional.mse_loss(predicted, latents[:, 1:]),
        "std": functional.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean(),
        "std_time": functional.relu(1 - (centred.var(1) + 1e-4).sqrt()).mean(),
        "covariance": _off_diagonal(centred),
        "alignment": functional.mse_loss(latents[:, :-1], latents[:, 1:]),
        "inverse": functional.mse_loss(acted, actions),
    }
    loss = torch.stack([PLDM_WEIGHTS[name] * term for name, term in terms.items()]).sum()
    return {"loss": loss, **terms}


def _off_diagonal(centred: Tensor) -> Tensor:
    """Mean square of the covariances between different components of centred latents [N, T, D] -> scalar."""
    count, _, width = centred.shape
    covariance = torch.einsum("nti,ntj->tij", centred, centred) / (count - 1)
    squares = covariance.square().sum((1, 2)) - covariance.diagonal(dim1=1, dim2=2).square().sum(1)
    return squares.mean() / (width * (width - 1))


class Phase(ABC):
    """One training phase. The random numbers of an update depend on (seed, phase, update) only."""

    name: str
    inverse: nn.Module | None = None  # inverse dynamics of PLDM, which are trained with the parts and not kept

    def __init__(self, parts: Parts, plan: TrainingPlan, trained: list[nn.Module], rate: float) -> None:
        self.parts, self.plan, self.rate, self._modules = parts, plan, rate, trained
        modules = trained if self.inverse is None else [*trained, self.inverse]
        self._weights = [weight for module in modules for weight in module.parameters()]
        self.optimizer = AdamW(self._weights, lr=rate, weight_decay=plan.weight_decay, fused=True)

    @abstractmethod
    def losses(self, step: int, purpose: str) -> dict[str, Tensor]:
        """Losses of the batch of (purpose, step); `loss` is minimised."""

    def update(self, step: int, share: float) -> dict[str, float]:
        """Take one gradient step with a share of the peak learning rate; return its losses."""
        self.parts.eval()
        for module in self._modules:
            module.train()
        torch.manual_seed(torch_seed(self.plan.seed, self.name, step))
        losses = self.losses(step, self.name)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * share
        self.optimizer.zero_grad()
        losses["loss"].backward()
        nn.utils.clip_grad_norm_(self._weights, self.plan.clip)
        self.optimizer.step()
        return {name: value.item() for name, value in losses.items()}

    @torch.no_grad()
    def settle(self) -> None:
        """Estimate the BatchNorm statistics again, because the running ones lag behind the weights."""
        norms = [part for module in self._modules for part in module.modules() if isinstance(part, nn.BatchNorm1d)]
        momentum = [norm.momentum for norm in norms]
        self.parts.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain average over all batches
            norm.train()
        for batch in range(BATCH_NORM_BATCHES):
            self.losses(batch, "batch-norm")
        for norm, before in zip(norms, momentum, strict=True):
            norm.momentum = before
        self.parts.eval()


class Joint(Phase):
    """Encoder and predictor together: prediction, and the term against collapse."""

    name = "joint"

    def __init__(self, parts: Parts, plan: TrainingPlan, windows: Windows) -> None:
        self._windows = windows
        width, block = parts.latent_dim, windows.blocks.size
        inverse = nn.Sequential(nn.Linear(2 * width, 512), nn.ReLU(), nn.Linear(512, block)).to(plan.device)
        self.inverse = inverse if plan.kind == "pldm" else None
        super().__init__(parts, plan, [parts], plan.learning_rate)

    def losses(self, step: int, purpose: str) -> dict[str, Tensor]:
        """Losses of a batch of windows."""
        plan = self.plan
        pixels, actions = self._windows.sample(plan.windows, generator(plan.seed, purpose, step), plan.worlds)
        pixels, actions = pixels.to(plan.device), actions.to(plan.device)
        latents = self.parts.embed(pixels).view(plan.windows, plan.frames, -1)
        before, taken = latents[:, :-1].flatten(0, 1), self.parts.embed_actions(actions.flatten(0, 1)[None])
        predicted = self.parts.predict([before], taken)[0].view(plan.windows, plan.frames - 1, -1)
        if self.inverse is not None:
            acted = self.inverse(torch.cat([latents[:, :-1], latents[:, 1:]], dim=-1))
            return pldm_loss(latents, predicted, acted, actions)
        directions = torch.randn(latents.shape[-1], plan.projections, device=latents.device)
        return lewm_loss(latents, predicted, functional.normalize(directions, dim=0), worlds=plan.worlds)


class Refinement(Phase):
    """The predictor alone, on the latents of the training rows."""

    name = "refinement"

    def __init__(self, parts: Parts, plan: TrainingPlan, windows: Windows) -> None:
        predicting = [part for name, part in parts.named_children() if name not in ("encoder", "projector")]
        super().__init__(parts, plan, predicting, plan.refinement_rate)
        self._windows = Windows(windows.logs, windows.blocks, parts.inputs, plan.ahead + 1, windows.episodes)
        rows = np.arange(windows.stop_row)
        self._latents = windows.encode(parts.eval(), rows, ENCODED_TOGETHER).to(plan.device)

    def losses(self, step: int, purpose: str) -> dict[str, Tensor]:
        """Losses of a batch of transitions."""
        size = self.plan.transitions // self.plan.ahead
        sampled = generator(self.plan.seed, purpose, step).integers(len(self._windows.starts), size=size)
        starts = self._windows.starts[sampled]
        actions = self._windows.actions(starts).to(self.plan.device)
        latents = self._latents[self._windows.rows(starts)]
        predicted = predicted_path(self.parts, latents[:, :1], actions)[1:]
        prediction = functional.mse_loss(torch.stack(predicted, dim=1), latents[:, 1:])
        return {"loss": prediction, "prediction": prediction}
