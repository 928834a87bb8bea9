"""Joint-embedding predictive world models: an encoder, and a predictor of the next latent from an action block.

LeWM and PLDM differ only in their training objective (`objectives.py`). There are three kinds of parts:
`CompactParts` and `ObjectParts` train on a laptop, `PublicParts` are those of the public checkpoints.
"""

from __future__ import annotations

import copy
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.core.parallel import Traced, join_pools, parallel_map, split_pools
from reachcost.data.actions import ActionBlocks
from reachcost.data.observations import frames_of_size
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations

GROUP = 500  # latents that `step` predicts together, and frames that a GPU encodes together


class Parts(nn.Module):
    """Base class of the encoder and predictor of a world model.

    Shapes: N any batch, T frames of a window, D latent size, E size of an action embedding.
    """

    architecture: Any  # dataclass of all sizes
    pixels: int  # side of the frames that the encoder reads
    latent_dim: int
    together: int  # frames that a CPU encodes together
    history: int = 1  # maximum number of frames that the predictor reads

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    def inputs(self, observations: Observations) -> Tensor:
        """What the encoder reads of N observations [N, ...], on the CPU: here frames uint8 [N, pixels, pixels, 3]."""
        return torch.from_numpy(frames_of_size(observations, self.pixels))

    def embed(self, inputs: Tensor) -> Tensor:
        """Encode the result of `inputs` for N observations -> latents [N, D]."""
        raise NotImplementedError

    def embed_actions(self, blocks: Tensor) -> Sequence[Tensor]:
        """Standardised action blocks [..., A] -> embeddings [..., E], one tensor for each layer of the predictor."""
        raise NotImplementedError

    def predict(
        self, window: Sequence[Tensor], actions: Sequence[Tensor], kept: Any = None
    ) -> tuple[Tensor, Any | None]:
        """Predict the latent [N, D] that follows a window; return it with what can be reused while the window grows.

        Args:
            window: Up to `history` latents [N, D], the newest last.
            actions: Embeddings of the block after each of them, [T, N, E] per layer.
            kept: Second result for this window without its newest latent.
        """
        raise NotImplementedError


def predicted_path(parts: Parts, context: Tensor, blocks: Tensor) -> list[Tensor]:
    """Return T + H latents [N, D]: the context [N, T, D], and one after each of the last H of T - 1 + H blocks.

    The first T - 1 of the blocks [N, T - 1 + H, A] lie between the frames of the context.
    """
    actions, path, kept = parts.embed_actions(blocks.transpose(0, 1)), list(context.unbind(1)), None
    for step in range(len(path), blocks.shape[1] + 1):
        first = max(0, step - parts.history)
        between = [layer[first:step] for layer in actions]
        following, kept = parts.predict(path[first:], between, None if first else kept)
        path.append(following.to(context.dtype))  # under autocast it has half precision
    return path


def rolled_out(parts: Parts, context: Tensor, blocks: Tensor, full_path: bool = False) -> Tensor:
    """Roll out candidates: context [B, T, D], blocks [B, S, T - 1 + H, A] -> last latents [B, S, D].

    With `full_path` all T + H latents [B, S, T + H, D]. A CPU rolls out each pool of S candidates in pieces of equal
    shape. Results thus depend neither on the other episodes of the batch nor on the number of threads.
    """

    def follow(context: Tensor, blocks: Tensor) -> Tensor:
        path = predicted_path(parts, context, blocks)
        return torch.stack(path, dim=1) if full_path else path[-1]

    if blocks.device.type != "cpu":
        starts = context[:, None].expand(-1, blocks.shape[1], -1, -1)
        return follow(starts.flatten(0, 1), blocks.flatten(0, 1)).unflatten(0, blocks.shape[:2])
    pieces = [(context[episode].repeat(len(piece), 1, 1), piece) for episode, piece in split_pools(blocks)]
    weights = tuple(tensor.data_ptr() for tensor in (*parts.parameters(), *parts.buffers()))
    traced = _TRACED.setdefault(parts, Traced())
    follow = traced.recorded((full_path, parts.training, weights), follow, *pieces[0])
    return join_pools(parallel_map(lambda piece: follow(*piece), pieces), blocks)


_TRACED: WeakKeyDictionary[Parts, Traced] = WeakKeyDictionary()  # traced rollouts of each model's parts


class JepaWorldModel:
    """A frozen `WorldModel` made of parts.

    Args:
        parts: Encoder and predictor; put in eval mode, without gradients.
        actions: Statistics of the logs' actions and the length of a block.
        clamp: Clamp the actions that the predictor reads to the range of the logs. This is exact where the environment
            clips to that range. The planner samples and executes unclamped actions.
        card: Name, source and training record of the model.
        device: Device of the weights and of the returned latents.
    """

    in_pieces = True  # rollouts distribute their pieces among threads themselves
    half = False  # whether rollouts compute in half precision

    def __init__(
        self,
        parts: Parts,
        actions: ActionBlocks,
        clamp: bool = True,
        card: dict[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        self.parts = parts.eval().requires_grad_(False).to(device)
        lay_out(self.parts)
        self.actions, self.clamp, self.card, self.device = actions, clamp, card or {}, torch.device(device)
        self.latent_dim, self.action_dim, self.history = parts.latent_dim, actions.size, parts.history
        self._low, self._high = (bound.to(device) for bound in actions.bounds())

    def __repr__(self) -> str:
        return f"JepaWorldModel({self.card.get('name', type(self.parts).__name__)}, latent_dim={self.latent_dim})"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of architecture and weights. Models with equal fingerprints encode alike."""
        digest = hashlib.sha256(repr(self.parts.architecture).encode())
        for name, tensor in sorted(self.parts.state_dict().items()):
            digest.update(name.encode() + tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    @torch.no_grad()
    def encode(self, observations: Observations) -> Tensor:
        """Encode the `pixels` of N observations -> latents [N, D].

        A CPU encodes groups of equal size, the last one padded, so a latent never depends on its batch.
        """
        inputs, together = self.parts.inputs(observations), self.parts.together
        if self.device.type != "cpu":
            return torch.cat([self.parts.embed(group.to(self.device)) for group in inputs.split(GROUP)])
        groups = functional.pad(inputs, (0, 0) * (inputs.ndim - 1) + (0, -len(inputs) % together))
        return torch.cat(parallel_map(self.parts.embed, groups.split(together)))[: len(inputs)]

    @torch.no_grad()
    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Roll out candidates: context [B, T, D], actions [B, S, T - 1 + H, A] -> [B, S, D]; see `rolled_out`."""
        self._require_shapes(context, actions)
        with self._precision():
            return rolled_out(self.parts, context.to(self.device), self._clamped(actions))

    @torch.no_grad()
    def step(self, latents: Tensor, blocks: Tensor) -> Tensor:
        """Predict the latents that follow N latents [N, D] after one action block each [N, A] -> [N, D]."""
        groups = zip(latents.to(self.device).split(GROUP), self._clamped(blocks).split(GROUP), strict=True)
        with self._precision():
            following = parallel_map(lambda pair: predicted_path(self.parts, *(x[:, None] for x in pair))[-1], groups)
        return torch.cat(following)

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.half else nullcontext()

    def _clamped(self, actions: Tensor) -> Tensor:
        actions = actions.to(self.device)
        return actions.clamp(self._low, self._high) if self.clamp else actions

    def _require_shapes(self, context: Tensor, actions: Tensor) -> None:
        for name, given in (("context", context), ("actions", actions)):
            if not isinstance(given, Tensor) or given.dtype != torch.float32:
                found = given.dtype if isinstance(given, Tensor) else type(given).__name__
                raise ReachcostError(f"rollout: {name} is {found}: give a torch.Tensor of float32")
        if context.ndim != 3 or context.shape[2] != self.latent_dim or not 1 <= context.shape[1] <= self.history:
            remedy = f"give latents [B, T, D = {self.latent_dim}] of T = 1 to {self.history} frames"
            raise ReachcostError(f"rollout: context is {tuple(context.shape)}: {remedy}, as encode(...)[:, None]")
        batch, frames, _ = context.shape
        long_enough = actions.ndim == 4 and actions.shape[2] >= frames
        if not long_enough or (len(actions), actions.shape[3]) != (batch, self.action_dim):
            needed = f"standardised blocks [B = {batch}, S, H, A = {self.action_dim}]"
            shape = tuple(actions.shape)
            raise ReachcostError(f"rollout: actions are {shape}: give {needed}, as `blocks(actions)` returns")

    def blocks(self, actions: np.ndarray) -> Tensor:
        """Environment actions [..., length, a] as action blocks [..., A] of this model."""
        return torch.from_numpy(self.actions.standardise(actions))


def lay_out(parts: nn.Module) -> None:
    """Store the weights that rollouts use column by column, which makes products with few rows a sixth faster.

    The encoder's weights keep their layout: it has enough rows, and cached latents must stay equal bit for bit.
    """
    for name, part in parts.named_modules():
        if isinstance(part, nn.Linear) and not name.startswith(("encoder", "projector")):
            part.weight.data = part.weight.data.t().contiguous().t()


def halved(model: JepaWorldModel) -> JepaWorldModel:
    """Return the same model with rollouts in half precision. The encoder stays in single precision.

    Plans are faster on most GPUs and slower on most CPUs. `reachcost check --half` reports how much they change. On a
    CPU, a separate process tries half precision first, because some CPUs advertise instructions that end the process.

    >>> from reachcost import load_world_model
    >>> model = load_world_model("lewm-tworoom-3072")
    >>> (halved(model) if half_precision_runs() else model).latent_dim
    192
    """
    if model.parts.device.type == "cpu" and not half_precision_runs():
        raise ReachcostError("half precision fails on this CPU: use the model in single precision, or a GPU")
    half = copy.copy(model)
    half.half = True
    return half


_TRIAL = """
import torch

with torch.autocast("cpu", torch.bfloat16):
    for rows in (1, 64, 3000):
        torch.nn.functional.linear(torch.ones(rows, 192), torch.ones(768, 192))
    heads = torch.ones(64, 16, 3, 64)
    torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    torch.ones(64, 192, 10) @ torch.ones(64, 10, 192)
"""
"""Products of the shapes that world models use."""


@cache
def half_precision_runs() -> bool:
    """Whether a process on this CPU survives products in half precision. The first call takes seconds."""
    return subprocess.run([sys.executable, "-c", _TRIAL], capture_output=True, check=False).returncode == 0
