"""Repeated work of planning with a frozen model, done once: frames are encoded once, and the predictor is folded.

Before anything is reused, modules and weights are compared with those it was made of. A change through `.data` that
leaves the first row of a weight unchanged is noticed when new frames come. Models whose changes could go unnoticed are
not cached.

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

FEW = 4
"""Number of batches of frames that are kept: starts and goals of two batches."""
METHODS = {"forward", "encode", "predict", "rollout"}
"""Methods that make a module behave differently from its class if they are set on the instance."""
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer types by their number of bytes."""
PREDICTING = ("predictor.", "action_encoder.", "pred_proj.")
"""Prefixes of the weights that are folded."""


class EncodedFrames:
    """Latents of the last few frames, kept until the model that encodes them changes.

    Frames are compared by their content, of which a copy is kept, because a solver may reuse its tensors.
    """

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._kept: list[tuple[Tensor, Tensor]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()  # a copied model has a cache of its own

    def renew(self, model: nn.Module, *frames: Tensor) -> bool:
        """Clear the cache if the model has changed; return whether it has.

        For new frames, the beginning of a plan, all weights are compared, otherwise one row of each.
        """
        thorough = any(self._known(given) is None for given in frames)
        if self._snapshot is not None and self._snapshot.holds(model, thorough):
            return False
        self._snapshot, self._kept = Snapshot.of(model), []
        return True

    def of(self, frames: Tensor, encode: Callable[[Tensor], Tensor]) -> Tensor:
        """Return `encode(frames)` of frames [B, ...], without gradient."""
        if (known := self._known(frames)) is not None:
            return known.clone()
        with torch.inference_mode(False), torch.no_grad():  # a gradient solver may use the latents after CEM
            latents = encode(frames)
            if self._snapshot is not None:
                self._kept = [*self._kept[1 - FEW :], (frames.clone(), latents)]
            return latents.clone()

    def _known(self, frames: Tensor) -> Tensor | None:
        for known, latents in self._kept:
            alike = (known.shape, known.dtype, known.device) == (frames.shape, frames.dtype, frames.device)
            if alike and torch.equal(known, frames):
                return latents
        return None


class FoldedModel(EncodedFrames):
    """Rollouts of a LeWM or PLDM of stable-worldmodel 0.1.1 at the cost of `PublicParts`.

    Frames go through the model's own encoder. Its predictor is rolled out as `PublicParts` with a copy of its weights,
    so gradients reach the candidates, but not the weights.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: PublicParts | None = None

    def renew(self, model: nn.Module, *frames: Tensor) -> bool:
        """Clear the cache and fold the model again if it has changed; return whether it has."""
        if not super().renew(model, *frames):
            return False
        with torch.inference_mode(False), torch.no_grad():
            self._parts = None if self._snapshot is None else _fold(model)
        return True

    def rollout(self, model: Any, info: dict[str, Any], candidates: Tensor) -> dict[str, Tensor] | None:
        """Roll candidates [B, S, H, A] out from the newest frame: `predicted_emb` [B, S, 1, D], `goal_emb` [B, 1, D].

        None for a model that differs from the public ones.
        """
        if path_of(model) not in FAMILIES:
            return None
        frames = [info[key][:, 0, -1:] for key in ("pixels", "goal")]
        self.renew(model, *frames)
        if self._parts is None or model.predictor.num_frames != self._parts.history:
            return None
        start, goal = (self.of(given, lambda given: model.encode({"pixels": given})["emb"]) for given in frames)
        ends = rolled_out(self._parts, start, candidates.to(start))
        return {"predicted_emb": ends[:, :, None], "goal_emb": goal}


class Snapshot:
    """Modules of a model, addresses of their weights, the first row of each, and the sum of its bits.

    Numbers are compared because a change through `.data` leaves no other trace. Rows are views, so the memory of the
    weights is not reused for others.
    """

    def __init__(self, state: list[object], tensors: list[Tensor]) -> None:
        self._state = state
        self._rows = [tensor[(0,) * (tensor.ndim - 1)] for tensor in tensors]
        self._numbers, self._sums = torch.cat(self._rows), _sums(tensors)

    @classmethod
    def of(cls, model: nn.Module) -> Snapshot | None:
        """Take a snapshot; None if changes could go unnoticed, or if the class does not define what the model does."""
        state, tensors = _state(model), _tensors(model)
        if state is None or len({tensor.device for tensor in tensors}) != 1:
            return None
        with torch.inference_mode(False):
            return cls(state, tensors)

    def holds(self, model: nn.Module, thorough: bool = True) -> bool:
        """Whether the model is unchanged, by every weight or by one row of each."""
        if _state(model) != self._state or not torch.equal(torch.cat(self._rows), self._numbers):
            return False
        return not thorough or torch.equal(_sums(_tensors(model)), self._sums)


def _tensors(model: nn.Module) -> list[Tensor]:
    """Weights and buffers that are not empty."""
    found = (tensor.detach() for tensor in (*model.parameters(), *model.buffers()))
    return [tensor for tensor in found if tensor.ndim and tensor.numel()]


def _sums(tensors: list[Tensor]) -> Tensor:
    """Sums of the bits of each tensor as integers, which do not depend on the order."""
    return torch.stack([tensor.view(INTEGERS[tensor.element_size()]).sum() for tensor in tensors])


def _state(model: nn.Module) -> list[object] | None:
    """Modules, settings, and addresses and versions of weights; None if these do not determine the model."""
    state: list[object] = [torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")]
    for module in model.modules():
        hooks = module._forward_hooks or module._forward_pre_hooks
        if module.training or hooks or not METHODS.isdisjoint(vars(module)):
            return None
        state.append(module)
        state.append([(name, part) for name, part in vars(module).items() if isinstance(part, bool | int | float)])
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                if tensor.is_inference() or tensor.is_meta:
                    return None
                state.append((tensor.data_ptr(), tensor._version, tensor.dtype, tensor.device))
    return state


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
