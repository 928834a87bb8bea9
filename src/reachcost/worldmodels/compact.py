"""The parts of a world model that two CPU cores train in minutes: 64 px frames, history 1, about a million weights.

The method is LeWM's, the layers are chosen for a processor: shared patch layers and one dense layer instead of a
transformer, and, as the window holds one frame, AdaLN blocks without attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.data.observations import frames
from reachcost.protocols import Observations


@dataclass(frozen=True)
class CompactArchitecture:
    """Sizes of the compact parts."""

    action_dim: int = 10
    """Numbers in an action block."""
    latent_dim: int = 192
    """Numbers in a latent."""
    pixels: int = 64
    """Side of a frame."""
    patch: int = 8
    """Side of a patch."""
    patch_width: int = 32
    """Features of a patch."""
    merged_width: int = 128
    """Features of 2 x 2 merged patches."""
    dense_width: int = 256
    """Features of a frame."""
    projector_width: int = 512
    """Hidden layer of the projector."""
    action_width: int = 64
    """Features of an action block."""
    blocks: int = 2
    """AdaLN blocks of the predictor."""
    block_width: int = 384
    """Hidden layer of a block."""

    @classmethod
    def wide(cls, action_dim: int) -> CompactArchitecture:
        """More features and a deeper predictor, for many worlds at once: what differs between them must be known."""
        return cls(action_dim=action_dim, patch_width=64, blocks=3, block_width=512)


class CompactParts(nn.Module):
    """Encoder, projector, action encoder and predictor; see `reachcost.worldmodels.jepa.Parts`.

    >>> parts = CompactParts(CompactArchitecture()).eval()
    >>> parts.embed(torch.zeros(3, 64, 64, 3, dtype=torch.uint8)).shape
    torch.Size([3, 192])
    """

    history = 1
    together = 128

    def __init__(self, architecture: CompactArchitecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.pixels, self.latent_dim = architecture.pixels, architecture.latent_dim
        self.encoder = self._encoder(architecture)
        self.projector = nn.Sequential(
            nn.Linear(architecture.dense_width, architecture.projector_width),
            nn.BatchNorm1d(architecture.projector_width),
            nn.ReLU(inplace=True),
            nn.Linear(architecture.projector_width, architecture.latent_dim),
        )
        self.action_encoder = nn.Sequential(
            nn.Linear(architecture.action_dim, 2 * architecture.action_width),
            nn.SiLU(),
            nn.Linear(2 * architecture.action_width, architecture.action_width),
            nn.SiLU(),
        )
        self.predictor = Predictor(architecture)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @staticmethod
    def _encoder(architecture: CompactArchitecture) -> nn.Module:
        return PatchEncoder(architecture)

    def inputs(self, observations: Observations) -> Tensor:
        """Frames uint8 [N, pixels, pixels, 3]."""
        return torch.from_numpy(frames(observations, self.pixels))

    def embed(self, inputs: Tensor) -> Tensor:
        """What `inputs` made of N observations -> latents [N, D]."""
        return self.projector(self.encoder(inputs))

    def embed_actions(self, blocks: Tensor) -> list[Tensor]:
        """Action blocks [..., A] -> embeddings [..., E], the same for every layer."""
        return [self.action_encoder(blocks)]

    def predict(self, window: Sequence[Tensor], actions: Sequence[Tensor], kept: None = None) -> tuple[Tensor, None]:
        """What follows the latent in the window [N, D]; see `reachcost.worldmodels.jepa.Parts`."""
        return self.predictor(window[-1], actions[0][-1]), None


class PatchEncoder(nn.Module):
    """Patches, each through one shared layer; 2 x 2 of them through another; all of them through a dense one."""

    def __init__(self, architecture: CompactArchitecture) -> None:
        super().__init__()
        self.side = architecture.pixels // architecture.patch
        self.patch = architecture.patch
        merged = (self.side // 2) ** 2
        self.patches = nn.Linear(3 * self.patch**2, architecture.patch_width)
        self.merge = nn.Linear(4 * architecture.patch_width, architecture.merged_width)
        self.dense = nn.Linear(merged * architecture.merged_width, architecture.dense_width)

    def forward(self, pixels: Tensor) -> Tensor:
        """Frames uint8 [N, height, width, 3] -> features [N, dense_width]."""
        count, side, patch = len(pixels), self.side, self.patch
        tiles = pixels.view(count, side, patch, side, 3 * patch).transpose(2, 3)
        tiles = tiles.reshape(count, side * side, -1).bitwise_not()  # dark on white becomes bright on zero
        x = tiles.float().mul_(1 / 64)  # about unit variance
        x = functional.relu(self.patches(x), inplace=True)
        x = x.view(count, side // 2, 2, side // 2, 2, -1).transpose(2, 3).reshape(count, (side // 2) ** 2, -1)
        x = functional.relu(self.merge(x), inplace=True).flatten(1)
        return functional.relu(self.dense(x), inplace=True)


class Predictor(nn.Module):
    """The change of a latent, by AdaLN-zero blocks: the action shifts, scales and gates what each of them does."""

    def __init__(self, architecture: CompactArchitecture) -> None:
        super().__init__()
        width = architecture.latent_dim
        self.modulation = nn.Linear(architecture.action_width, 3 * width * architecture.blocks)
        self.inner = nn.ModuleList(nn.Linear(width, architecture.block_width) for _ in range(architecture.blocks))
        self.outer = nn.ModuleList(nn.Linear(architecture.block_width, width) for _ in range(architecture.blocks))
        self.project = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, width),
            nn.BatchNorm1d(width),
            nn.ReLU(inplace=True),
            nn.Linear(width, width),
        )
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Latents [N, D] and action embeddings [N, E] -> next latents [N, D]."""
        width = latents.shape[-1]
        modulation = self.modulation(actions).split(width, dim=-1)
        x = latents
        for block, (inner, outer) in enumerate(zip(self.inner, self.outer, strict=True)):
            shift, scale, gate = modulation[3 * block : 3 * block + 3]
            hidden = torch.addcmul(shift, functional.layer_norm(x, (width,)), 1 + scale)
            x = torch.addcmul(x, gate, outer(functional.relu(inner(hidden), inplace=True)))
        return self.project(x).add_(latents)
