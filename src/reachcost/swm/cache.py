"""Caches for planning with a frozen model: frames are encoded once, and the predictor is folded once.

Before anything is reused, modules and weights are compared with those it was made of. Models that a comparison does
not describe completely are not cached.

Shapes: B episodes, S candidates, H action blocks of A numbers, G goal frames, D latent size.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reachcost.worldmodels.jepa import lay_out, predicted_path, rolled_out
from reachcost.worldmodels.public import PublicParts
from reachcost.worldmodels.public_config import FAMILIES, describe, path_of, read_architecture

FEW = 4  # number of batches of frames that are kept: starts and goals of two batches
# Methods that make a module behave differently from its class if they are set on the instance.
METHODS = {"forward", "encode", "predict", "rollout"}
PREDICTING = ("predictor.", "action_encoder.", "pred_proj.")  # prefixes of the weights that are folded


class EncodedFrames:
    """Latents of the last few frames, kept until the model that encodes them changes.

    Frames are compared by their content, of which a copy is kept, because a solver may reuse its tensors.
    """

    def __init__(self) -> None:
        self._settings: list[object] | None = None
        self._weights: list[Tensor] = []
        self._kept: list[tuple[Tensor, Tensor]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()  # a copied model has a separate cache

    def renew(self, model: nn.Module) -> bool:
        """Clear the cache if the model has changed; return whether it has."""
        settings = _settings(model)
        weights = [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]
        same = settings is not None and settings == self._settings
        if same and all(map(torch.equal, weights, self._weights)):
            return False
        with torch.inference_mode(False):
            self._settings, self._weights = settings, [tensor.clone() for tensor in weights]
        self._kept = []
        return True

    def of(self, frames: Tensor, encode: Callable[[Tensor], Tensor]) -> Tensor:
        """Return `encode(frames)` of frames [B, ...], without gradient."""
        for known, latents in self._kept:
            alike = (known.dtype, known.device) == (frames.dtype, frames.device)
            if alike and torch.equal(known, frames):
                return latents.clone()
        with torch.inference_mode(False), torch.no_grad():  # a gradient solver may use the latents after CEM
            latents = encode(frames)
            if self._settings is not None:
                self._kept = [*self._kept[1 - FEW :], (frames.clone(), latents)]
            return latents.clone()


class FoldedModel(EncodedFrames):
    """Rollouts of a LeWM or PLDM of stable-worldmodel 0.1.1 at the cost of `PublicParts`.

    Frames go through the model's own encoder. Its predictor is rolled out as `PublicParts` with a copy of its weights,
    so gradients reach the candidates, but not the weights.
    """

    _parts: PublicParts | None = None

    def renew(self, model: nn.Module) -> bool:
        """Clear the cache and fold the model again if it has changed; return whether it has."""
        if not super().renew(model):
            return False
        with torch.inference_mode(False), torch.no_grad():
            self._parts = None if self._settings is None else _fold(model)
        return True

    def rollout(self, model: Any, info: dict[str, Any], candidates: Tensor) -> dict[str, Tensor] | None:
        """Roll candidates [B, S, H, A] out from the newest frame: `predicted_emb` [B, S, 1, D], `goal_emb` [B, 1, D].

        None for a model that differs from the public ones.
        """
        if path_of(model) not in FAMILIES:
            return None
        self.renew(model)
        if self._parts is None or model.predictor.num_frames != self._parts.history:
            return None
        start, goal = (
            self.of(info[key][:, 0, -1:], lambda frames: model.encode({"pixels": frames})["emb"])
            for key in ("pixels", "goal")
        )
        ends = rolled_out(self._parts, start, candidates.to(start))
        return {"predicted_emb": ends[:, :, None], "goal_emb": goal}


def _settings(model: nn.Module) -> list[object] | None:
    """Modules and settings of a model; None if these and its weights do not determine what it computes."""
    found: list[object] = [torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")]
    for module in model.modules():
        hooks = module._forward_hooks or module._forward_pre_hooks
        if module.training or hooks or not METHODS.isdisjoint(vars(module)):
            return None
        found.append(module)
        found.append([(name, part) for name, part in vars(module).items() if isinstance(part, bool | int | float)])
    weights = [*model.parameters(), *model.buffers()]
    found.append([(tensor.dtype, tensor.device) for tensor in weights])
    return None if any(tensor.is_meta for tensor in weights) else found


def _fold(model: Any) -> PublicParts | None:
    """The predicting parts of a model, frozen; None unless they predict the same."""
    if {tensor.dtype for tensor in model.parameters()} != {torch.float32}:
        return None
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items() if name.startswith(PREDICTING)}
    try:
        _, architecture = read_architecture(Path(path_of(model)), describe(model))
        with torch.device("meta"):
            parts = PublicParts(architecture)
        del parts.encoder, parts.projector  # the model's own are used
        parts.load_state_dict(weights, assign=True)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError, ZeroDivisionError):
        return None  # some module was replaced
    parts.eval().requires_grad_(False).to(next(model.parameters()).device)
    lay_out(parts)
    return parts if _agree(model, parts) else None


def _agree(model: Any, parts: PublicParts) -> bool:
    """Whether both predict the same from random numbers, for more steps than the window is long."""
    history, numbers = model.predictor.num_frames, torch.Generator().manual_seed(0)
    start = torch.randn(2, 1, parts.latent_dim, generator=numbers).to(parts.device)
    blocks = torch.randn(2, history + 1, parts.architecture.action_dim, generator=numbers).to(parts.device)
    path, actions = start, model.action_encoder(blocks)
    for step in range(1, history + 2):
        following = model.predict(path[:, -history:], actions[:, :step][:, -history:])
        path = torch.cat([path, following[:, -1:]], dim=1)
    ours = torch.stack(predicted_path(parts, start, blocks), dim=1)
    return bool((ours - path).abs().max() <= 1e-4 * path.abs().max())
