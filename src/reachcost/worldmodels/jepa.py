"""A joint-embedding predictive world model: frames to latents, latents and action blocks to the next latent.

LeWM and PLDM share this shape and differ in the objective they are trained with (`objectives.py`). The parts come in
two sizes: `compact.py` trains on a laptop, `public.py` is the architecture of the released checkpoints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.core.parallel import Traced, join_pools, parallel_map, split_pools
from reachcost.data.actions import ActionBlocks
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations

GROUP = 500
"""Latents that `step` follows at once, and frames that are encoded at once on another device than a processor."""


class Parts(Protocol):
    """What a size provides; N any batch, T frames of a window, D latent size, E size of an action embedding."""

    pixels: int
    """Side of the frames the encoder reads."""
    latent_dim: int
    """D."""
    together: int
    """Frames that are encoded at once."""
    history: int
    """The longest window, in frames, that the predictor reads."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    def inputs(self, observations: Observations) -> Tensor:
        """What the encoder reads of N observations [N, ...], on the CPU: their frames, or what it makes of them."""
        ...

    def embed(self, inputs: Tensor) -> Tensor:
        """What `inputs` made of N observations -> latents [N, D]."""
        ...

    def embed_actions(self, blocks: Tensor) -> Sequence[Tensor]:
        """What each layer of the predictor takes of standardised action blocks [..., A] -> [..., E]."""
        ...

    def predict(
        self, window: Sequence[Tensor], actions: Sequence[Tensor], kept: Any = None
    ) -> tuple[Tensor, Any | None]:
        """What follows a window of up to `history` latents, each [N, D], the newest last -> [N, D].

        Args:
            window: The latents.
            actions: What `embed_actions` made of the block after each of them, [T, N, E] a layer.
            kept: What this method returned beside its prediction for this window without its newest latent.

        Returns:
            The prediction, and what of this window need not be computed again as long as it grows.
        """
        ...


def predicted_path(parts: Parts, context: Tensor, blocks: Tensor) -> list[Tensor]:
    """Latents [N, D] of the context [N, T, D] and of what follows it, one after each of the last H of T - 1 + H blocks.

    The first T - 1 of the blocks [N, T - 1 + H, A] lie between the frames of the context.
    """
    actions, path, kept = parts.embed_actions(blocks.transpose(0, 1)), list(context.unbind(1)), None
    for step in range(len(path), blocks.shape[1] + 1):
        first = max(0, step - parts.history)
        between = [layer[first:step] for layer in actions]
        following, kept = parts.predict(path[first:], between, None if first else kept)
        path.append(following)
    return path


def rolled_out(parts: Parts, context: Tensor, blocks: Tensor, whole_path: bool = False) -> Tensor:
    """Roll out a pool of S candidates for each of B episodes, on the device where everything given is.

    On a processor each pool is rolled out by itself, in pieces of equal shape: it never depends on the other episodes
    of the batch, nor on the number of threads.

    Args:
        parts: What predicts.
        context: Latents [B, T, D].
        blocks: Candidates [B, S, T - 1 + H, A].
        whole_path: Return all T + H latents of each candidate, not its last alone.

    Returns:
        Where each candidate ends [B, S, D], or its path [B, S, T + H, D].
    """

    def follow(context: Tensor, blocks: Tensor) -> Tensor:
        path = predicted_path(parts, context, blocks)
        return torch.stack(path, dim=1) if whole_path else path[-1]

    if blocks.device.type != "cpu":
        starts = context[:, None].expand(-1, blocks.shape[1], -1, -1)
        return follow(starts.flatten(0, 1), blocks.flatten(0, 1)).unflatten(0, blocks.shape[:2])
    pieces = [(context[episode].repeat(len(piece), 1, 1), piece) for episode, piece in split_pools(blocks)]
    if isinstance(parts, nn.Module):
        weights = tuple(tensor.data_ptr() for tensor in (*parts.parameters(), *parts.buffers()))
        traced = _TRACED.setdefault(parts, Traced())
        follow = traced.recorded((whole_path, parts.training, weights), follow, *pieces[0])
    return join_pools(parallel_map(lambda piece: follow(*piece), pieces), blocks)


_TRACED: WeakKeyDictionary[nn.Module, Traced] = WeakKeyDictionary()
"""Rollouts that were recorded, by their parts."""


class JepaWorldModel:
    """The parts as a frozen `WorldModel`.

    Args:
        parts: Encoder and predictor; put in eval mode, without gradients.
        actions: Statistics of the logs' actions and the length of a block.
        clamp: Let the predictor see actions within the range of the logs only. Exact where the environment clips to
            that range; the planner still samples and executes what it likes.
        card: Where the model comes from, for people and records.
        device: Where it computes, and where latents are that it returns.
    """

    in_pieces = True
    """Whether rollouts share their pieces among threads by themselves; else torch is given all threads for them."""

    def __init__(
        self,
        parts: nn.Module,
        actions: ActionBlocks,
        clamp: bool = True,
        card: dict[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        self.parts: Any = parts.eval().requires_grad_(False).to(device)
        lay_out(self.parts)
        self.actions, self.clamp, self.card, self.device = actions, clamp, card or {}, torch.device(device)
        self.latent_dim: int = self.parts.latent_dim
        self.action_dim = actions.size
        self.history: int = self.parts.history
        self.predicting: Any = self.parts
        """What rolls out: the parts, or the same in half precision."""
        self._low, self._high = (bound.to(device) for bound in actions.bounds())

    def __repr__(self) -> str:
        return f"JepaWorldModel({self.card.get('name', type(self.parts).__name__)}, latent_dim={self.latent_dim})"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over architecture and weights: two models with the same one encode alike."""
        digest = hashlib.sha256(repr(self.parts.architecture).encode())
        for name, tensor in sorted(self.parts.state_dict().items()):
            digest.update(name.encode() + tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    @torch.no_grad()
    def encode(self, observations: Observations) -> Tensor:
        """Encode the `pixels` of N observations -> latents [N, D].

        On a processor in groups of one size, the last filled up: a latent never depends on its batch.
        """
        inputs, together = self.parts.inputs(observations), self.parts.together
        if self.device.type != "cpu":
            return torch.cat([self._embed(group) for group in inputs.split(GROUP)])
        groups = functional.pad(inputs, (0, 0) * (inputs.ndim - 1) + (0, -len(inputs) % together))
        latents = parallel_map(self._embed, groups.split(together))
        return torch.cat(latents)[: len(inputs)]

    def _embed(self, group: Tensor) -> Tensor:
        return self.parts.embed(group.to(self.device))

    @torch.no_grad()
    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Predict where candidates end: context [B, T, D], actions [B, S, T - 1 + H, A] -> [B, S, D].

        See `rolled_out`: a pool never depends on the other episodes of the batch, nor on the number of threads.
        """
        self._require_shapes(context, actions)
        context, actions = context.to(self.device), actions.to(self.device)
        if self.clamp:
            actions = torch.minimum(torch.maximum(actions, self._low), self._high)
        return rolled_out(self.predicting, context, actions)

    @torch.no_grad()
    def step(self, latents: Tensor, blocks: Tensor) -> Tensor:
        """Predict what follows N latents [N, D], each under an action block of its own [N, A] -> [N, D].

        `rollout` of one candidate each, without the past, in groups: what imagining many trajectories needs.
        """
        latents, blocks = latents.to(self.device), blocks.to(self.device)
        if self.clamp:
            blocks = torch.minimum(torch.maximum(blocks, self._low), self._high)
        return torch.cat(parallel_map(self._follow, list(zip(latents.split(GROUP), blocks.split(GROUP), strict=True))))

    def _follow(self, group: tuple[Tensor, Tensor]) -> Tensor:
        latents, blocks = (part[:, None] for part in group)
        return predicted_path(self.predicting, latents, blocks)[-1]

    def _require_shapes(self, context: Tensor, actions: Tensor) -> None:
        for name, given in (("context", context), ("actions", actions)):
            if not isinstance(given, Tensor) or given.dtype != torch.float32:
                found = given.dtype if isinstance(given, Tensor) else type(given).__name__
                raise ReachcostError(f"rollout: {name} is {found}: give a torch.Tensor of float32")
        frames_given = context.shape[1] if context.ndim == 3 else 0
        if context.ndim != 3 or context.shape[2] != self.latent_dim or not 1 <= frames_given <= self.history:
            raise ReachcostError(
                f"rollout: context is {tuple(context.shape)}: give latents [B, T, D = {self.latent_dim}] of T = 1 to "
                f"{self.history} frames, for one frame encode(...)[:, None]"
            )
        blocks = actions.shape[2] if actions.ndim == 4 else 0
        if len(actions) != len(context) or blocks < frames_given or actions.shape[3] != self.action_dim:
            raise ReachcostError(
                f"rollout: actions are {tuple(actions.shape)}: give standardised blocks [B = {len(context)}, S, H, A = "
                f"{self.action_dim}], {self.actions.length} steps each; `blocks(actions)` makes them of actions"
            )

    def blocks(self, actions: np.ndarray) -> Tensor:
        """Environment actions [..., length, a] as this model's action blocks [..., A]."""
        return torch.from_numpy(self.actions.standardise(actions))


def lay_out(parts: nn.Module) -> None:
    """Store the weights that rollouts use column by column: products with few rows are a sixth faster.

    Not those of the encoder: it has rows enough, and latents that were kept stay what they are to the last bit.
    """
    for name, part in parts.named_modules():
        if isinstance(part, nn.Linear) and not name.startswith(("encoder", "projector")):
            part.weight.data = part.weight.data.t().contiguous().t()
