"""The parts of the public LeWM and PLDM checkpoints, in plain torch.

A vision transformer reads a 224 px frame, a projector turns its CLS token into the latent, and a causal transformer
whose blocks the actions modulate (AdaLN-zero) predicts the next one. Modules and parameters carry the public names
(those of the ViT as in transformers 5), so a public state dict loads as it is; see `checkpoints.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.data.observations import frames
from reachcost.protocols import Observations
from reachcost.worldmodels.public_architecture import Norm, PublicArchitecture
from reachcost.worldmodels.public_predictor import Kept, Predictor
from reachcost.worldmodels.vit import VisionTransformer

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class PublicParts(nn.Module):
    """Encoder, projector, action encoder and predictor; see `reachcost.worldmodels.jepa.Parts`.

    >>> parts = PublicParts(PublicArchitecture(image_size=56, encoder_depth=1, depth=1)).eval()
    >>> parts.embed(torch.zeros(2, 56, 56, 3, dtype=torch.uint8)).shape
    torch.Size([2, 192])
    """

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.pixels, self.latent_dim = architecture.image_size, architecture.latent_dim
        self.history = architecture.history
        self.together = 1  # a frame is 257 tokens, enough for a matrix product
        # On the CPU even when the parts are built on the meta device: no state dict brings these two.
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN, device="cpu"), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD, device="cpu"), persistent=False)
        width = architecture.latent_dim
        self.encoder = VisionTransformer(architecture)
        self.projector = _projector(
            architecture.encoder_width, architecture.projector_hidden, width, architecture.projector_norm
        )
        self.action_encoder = ActionEncoder(architecture)
        self.predictor = Predictor(architecture)
        self.pred_proj = _projector(width, architecture.pred_proj_hidden, width, architecture.pred_proj_norm)
        self.register_load_state_dict_post_hook(_fold_again)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def inputs(self, observations: Observations) -> Tensor:
        """Frames uint8 [N, image_size, image_size, 3]."""
        return torch.from_numpy(frames(observations, self.pixels))

    def embed(self, inputs: Tensor) -> Tensor:
        """What `inputs` made of N observations -> latents [N, D]."""
        scaled = (inputs.float() / 255 - self.get_buffer("mean")) / self.get_buffer("std")
        return self.projector(self.encoder(scaled.permute(0, 3, 1, 2).contiguous()))

    def embed_actions(self, blocks: Tensor) -> list[Tensor]:
        """Standardised action blocks [..., A] -> shifts, scales and gates [..., 6 W] of every layer."""
        return self.predictor.transformer.modulations(self.action_encoder(blocks))

    def predict(
        self, window: Sequence[Tensor], actions: Sequence[Tensor], kept: Kept | None = None
    ) -> tuple[Tensor, Kept | None]:
        """What follows a window of latents [N, D]; see `reachcost.worldmodels.jepa.Parts`."""
        following, kept = self.predictor(window, actions, kept)
        return self.pred_proj(following), kept


class Projector(nn.Module):
    """Two layers around a norm and a GELU."""

    def __init__(self, inputs: int, hidden: int, outputs: int, norm: Norm) -> None:
        super().__init__()
        between = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}[norm](hidden)
        self.net = nn.Sequential(nn.Linear(inputs, hidden), between, nn.GELU(), nn.Linear(hidden, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs] -> [N, outputs]."""
        return self.net(x)


class ActionEncoder(nn.Module):
    """Action blocks [..., A] -> [..., D], each by itself."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        smoothed, width = architecture.action_smoothed_dim, architecture.latent_dim
        hidden = architecture.action_mlp_scale * width
        self.patch_embed = nn.Conv1d(architecture.action_dim, smoothed, kernel_size=1)
        self.embed = nn.Sequential(nn.Linear(smoothed, hidden), nn.SiLU(), nn.Linear(hidden, width))

    def forward(self, blocks: Tensor) -> Tensor:
        """Action blocks [..., A] -> [..., D]."""
        return self.embed(functional.linear(blocks, self.patch_embed.weight[..., 0], self.patch_embed.bias))


def _fold_again(parts: nn.Module, _: object) -> None:
    """After other weights were loaded."""
    parts.train(parts.training)


def _projector(inputs: int, hidden: int | None, outputs: int, norm: Norm) -> nn.Module:
    return nn.Identity() if hidden is None else Projector(inputs, hidden, outputs, norm)
