"""The two phases of a training: all parts together, then the predictor alone on latents that no longer move.

Encoding frames is most of the work of the first phase. Once the encoder is trained its latents can be computed once,
and the predictor sees many times as many transitions in the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW

from reachcost.core.seeding import generator, torch_seed
from reachcost.worldmodels.compact import CompactParts
from reachcost.worldmodels.jepa import predicted_path
from reachcost.worldmodels.public import PublicParts
from reachcost.worldmodels.training.objectives import lewm_loss, pldm_loss
from reachcost.worldmodels.training.plan import TrainingPlan
from reachcost.worldmodels.training.windows import Windows

BATCH_NORM_BATCHES = 32
ENCODED_TOGETHER = 1024


class Phase(ABC):
    """One phase; everything random in an update comes from (seed, phase, update)."""

    name: str

    def __init__(
        self,
        parts: CompactParts | PublicParts,
        plan: TrainingPlan,
        trained: list[nn.Module],
        beside: nn.Module | None = None,
    ) -> None:
        self.parts = parts
        self.plan, self._modules, self.beside = plan, trained, beside
        self.rate = plan.learning_rate
        modules = trained if beside is None else [*trained, beside]
        self.trained = [weight for module in modules for weight in module.parameters()]
        self.optimizer = AdamW(self.trained, lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True)

    @abstractmethod
    def losses(self, step: int, purpose: str) -> dict[str, Tensor]:
        """Losses of the batch that belongs to (purpose, step); `loss` is what is minimised."""

    def update(self, step: int, share: float) -> dict[str, float]:
        """One gradient step with that share of the peak learning rate."""
        torch.manual_seed(torch_seed(self.plan.seed, self.name, step))
        losses = self.losses(step, self.name)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * share
        self.optimizer.zero_grad()
        losses["loss"].backward()
        nn.utils.clip_grad_norm_(self.trained, self.plan.clip)
        self.optimizer.step()
        return {name: value.item() for name, value in losses.items()}

    def train(self) -> None:
        """Put what this phase trains, and nothing else, in training mode."""
        self.parts.eval()
        for module in self._modules:
            module.train()

    @torch.no_grad()
    def settle(self) -> None:
        """Estimate the BatchNorm statistics anew: while the weights move fast, those of the training are stale."""
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

    def __init__(self, parts: CompactParts | PublicParts, plan: TrainingPlan, windows: Windows) -> None:
        self._windows = windows
        width, block = parts.latent_dim, windows.blocks.size
        inverse = nn.Sequential(nn.Linear(2 * width, 512), nn.ReLU(), nn.Linear(512, block)).to(plan.device)
        super().__init__(parts, plan, [parts], beside=inverse if plan.kind == "pldm" else None)

    def losses(self, step: int, purpose: str) -> dict[str, Tensor]:
        """Losses of a batch of windows."""
        plan = self.plan
        pixels, actions = self._windows.draw(plan.windows, generator(plan.seed, purpose, step), plan.worlds)
        pixels, actions = pixels.to(plan.device), actions.to(plan.device)
        latents = self.parts.embed(pixels).view(plan.windows, plan.frames, -1)
        before, taken = latents[:, :-1].flatten(0, 1), self.parts.embed_actions(actions.flatten(0, 1)[None])
        predicted = self.parts.predict([before], taken)[0].view(plan.windows, plan.frames - 1, -1)
        if plan.kind == "lewm":
            directions = torch.randn(latents.shape[-1], plan.projections, device=latents.device)
            return lewm_loss(latents, predicted, functional.normalize(directions, dim=0), worlds=plan.worlds)
        assert self.beside is not None
        acted = self.beside(torch.cat([latents[:, :-1], latents[:, 1:]], dim=-1))
        return pldm_loss(latents, predicted, acted, actions)


class Refinement(Phase):
    """The predictor alone, on the latents of the training rows."""

    name = "refinement"

    def __init__(self, parts: CompactParts | PublicParts, plan: TrainingPlan, windows: Windows) -> None:
        encoding = ("encoder", "projector")
        super().__init__(parts, plan, [part for name, part in parts.named_children() if name not in encoding])
        self.rate = plan.refinement_rate
        self._windows = windows.of_frames(plan.ahead + 1)
        self._latents = self._encode().to(plan.device)

    @torch.no_grad()
    def _encode(self) -> Tensor:
        self.parts.eval()
        rows = range(0, self._windows.stop_row, ENCODED_TOGETHER)
        batches = (self._windows.inputs_of(slice(row, min(row + rows.step, rows.stop))) for row in rows)
        return torch.cat([self.parts.embed(batch.to(self.plan.device)).cpu() for batch in batches])

    def losses(self, step: int, purpose: str) -> dict[str, Tensor]:
        """Losses of a batch of transitions."""
        size = self.plan.transitions // self.plan.ahead
        drawn = generator(self.plan.seed, purpose, step).integers(len(self._windows.starts), size=size)
        starts = self._windows.starts[drawn]
        actions = self._windows.actions(starts).to(self.plan.device)
        latents = self._latents[self._windows.rows(starts)]
        predicted = predicted_path(self.parts, latents[:, :1], actions)[1:]
        prediction = functional.mse_loss(torch.stack(predicted, dim=1), latents[:, 1:])
        return {"loss": prediction, "prediction": prediction}
