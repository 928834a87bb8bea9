"""What planning with a frozen model repeats, done once: its frames are encoded, and its predictor is folded.

Nothing here outlives a change of the model: before anything is used again, modules and weights are compared with those
it was made of; a change through `.data` that leaves the first row of a weight alone is seen when other frames come.
Where a change could go unnoticed, nothing is kept.

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
"""Frames that are kept, each of a whole batch: starts and goals of two batches."""
METHODS = {"forward", "encode", "predict", "rollout"}
"""What, set on a module itself, makes it do something else than its class says."""
WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Whole numbers by their bytes."""
PREDICTING = ("predictor.", "action_encoder.", "pred_proj.")
"""The weights that are folded, by the beginning of their names."""


class EncodedFrames:
    """The latents of the last few frames, for as long as the model that encodes them stays as it is.

    Frames are known by their content, of which a copy is kept: a solver gives the same ones at every step, in tensors
    that it may fill with those of another episode next time.
    """

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._kept: list[tuple[Tensor, Tensor]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()  # a copy belongs to a copy of the model, and begins anew

    def renew(self, model: nn.Module, *frames: Tensor) -> bool:
        """Forget everything if the model is not what it was; whether it was forgotten.

        Frames that are not known tell that a solver begins anew: then every weight is compared, else a row of each.
        """
        thorough = any(self._known(given) is None for given in frames)
        if self._snapshot is not None and self._snapshot.holds(model, thorough):
            return False
        self._snapshot, self._kept = Snapshot.of(model), []
        return True

    def of(self, frames: Tensor, encode: Callable[[Tensor], Tensor]) -> Tensor:
        """What `encode` makes of frames [B, ...], without gradient."""
        if (known := self._known(frames)) is not None:
            return known.clone()
        with torch.inference_mode(False), torch.no_grad():  # CEM runs in that mode, a gradient solver may come after it
            latents = encode(frames)
            if self._snapshot is not None:
                self._kept = [*self._kept[1 - FEW :], (frames.clone(), latents)]
            return latents.clone()

    def _known(self, frames: Tensor) -> Tensor | None:
        for known, latents in self._kept:
            if _kind(known) == _kind(frames) and torch.equal(known, frames):
                return latents
        return None


class FoldedModel(EncodedFrames):
    """A LeWM or PLDM of stable-worldmodel 0.1.1 that costs what ours costs; other models it leaves to themselves.

    Frames go through the model's own encoder. Its predictor is rolled out as `PublicParts`, a copy of its weights that
    predicts the same with less work, through which gradients reach the candidates, but not the weights.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: PublicParts | None = None

    def renew(self, model: nn.Module, *frames: Tensor) -> bool:
        """Forget everything if the model is not what it was, and fold it again; whether it was forgotten."""
        if not super().renew(model, *frames):
            return False
        with torch.inference_mode(False), torch.no_grad():
            self._parts = None if self._snapshot is None else _fold(model)
        return True

    def rollout(self, model: Any, info: dict[str, Any], candidates: Tensor) -> dict[str, Tensor] | None:
        """Where candidates [B, S, H, A] end, from the newest frame: `predicted_emb` [B, S, 1, D], `goal_emb` [B, 1, D].

        None for a model that is not built like the public ones.
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
    """A model as it was: its modules, where their weights were, the first row of each, and what its bits add up to.

    Numbers are compared as well because a change through `.data` leaves no other trace. Rows are views, which keep the
    memory of the weights: its address cannot become that of others.
    """

    def __init__(self, state: list[object], tensors: list[Tensor]) -> None:
        self._state = state
        self._rows = [tensor[(0,) * (tensor.ndim - 1)] for tensor in tensors]
        self._numbers, self._sums = torch.cat(self._rows), _sums(tensors)

    @classmethod
    def of(cls, model: nn.Module) -> Snapshot | None:
        """None where changes would go unnoticed, or something else than its class tells what the model does."""
        state = _state(model)
        tensors = _tensors(model)
        if state is None or len({tensor.device for tensor in tensors}) != 1:
            return None
        with torch.inference_mode(False):
            return cls(state, tensors)

    def holds(self, model: nn.Module, thorough: bool = True) -> bool:
        """Whether the model is still the same, by every weight or by a row of each."""
        if _state(model) != self._state or not torch.equal(torch.cat(self._rows), self._numbers):
            return False
        return not thorough or torch.equal(_sums(_tensors(model)), self._sums)


def _tensors(model: nn.Module) -> list[Tensor]:
    """Weights and buffers that hold something."""
    found = (tensor.detach() for tensor in (*model.parameters(), *model.buffers()))
    return [tensor for tensor in found if tensor.ndim and tensor.numel()]


def _sums(tensors: list[Tensor]) -> Tensor:
    """The bits of each tensor as whole numbers, added up: no order of adding changes that."""
    return torch.stack([tensor.view(WHOLE[tensor.element_size()]).sum() for tensor in tensors])


def _state(model: nn.Module) -> list[object] | None:
    """Modules, and address and version of their weights; None where these do not tell all."""
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


def _kind(tensor: Tensor) -> tuple[object, ...]:
    """What two tensors must share to be compared at all."""
    return tensor.shape, tensor.dtype, tensor.device


def _fold(model: Any) -> PublicParts | None:
    """The predicting parts of a model, frozen; None unless they predict what the model does."""
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
        return None  # something in it was exchanged for something else
    parts.eval().requires_grad_(False).to(next(model.parameters()).device)
    lay_out(parts)
    return parts if _agree(model, parts) else None


def _agree(model: Any, parts: PublicParts) -> bool:
    """Whether both predict the same on random numbers, until the window has moved: names and sizes do not tell all."""
    history, numbers = model.predictor.num_frames, torch.Generator().manual_seed(0)
    start = torch.randn(2, 1, parts.latent_dim, generator=numbers).to(parts.device)
    blocks = torch.randn(2, history + 1, parts.architecture.action_dim, generator=numbers).to(parts.device)
    path, actions = start, model.action_encoder(blocks)
    for step in range(1, history + 2):
        following = model.predict(path[:, -history:], actions[:, :step][:, -history:])
        path = torch.cat([path, following[:, -1:]], dim=1)
    ours = torch.stack(predicted_path(parts, start, blocks), dim=1)
    return bool((ours - path).abs().max() <= 1e-4 * path.abs().max())
