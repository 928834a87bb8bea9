"""The architecture of the public LeWM and PLDM checkpoints, in plain torch.

A vision transformer reads a 224 px frame, and a projector maps its CLS token to the latent. A causal transformer,
modulated by the actions (AdaLN-zero), predicts the next latent. Modules and parameters have the public names (in the
ViT those of transformers 5), so a public state dict loads unchanged. The encoder has no dropout, as in `lewm.yaml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.worldmodels.jepa import Parts
from reachcost.worldmodels.public_predictor import Kept, Net, Predictor

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
Norm = Literal["batch", "layer", "none"]


@dataclass(frozen=True)
class PublicArchitecture:
    """Sizes of the public parts. The defaults are those of the public `lewm.yaml` (ViT-tiny)."""

    image_size: int = 224
    patch: int = 14
    encoder_width: int = 192
    encoder_depth: int = 12
    encoder_heads: int = 3
    encoder_mlp: int = 768
    encoder_eps: float = 1e-12  # epsilon of the encoder's layer norms
    encoder_qkv_bias: bool = True
    latent_dim: int = 192
    projector_hidden: int | None = 2048
    """Hidden layer between CLS token and latent; None means that the CLS token is the latent."""
    projector_norm: Norm = "batch"
    pred_proj_hidden: int | None = 2048  # the same between the predictor's output and the next latent
    pred_proj_norm: Norm = "batch"
    action_dim: int = 10  # numbers in an action block
    action_smoothed_dim: int = 10  # numbers in a block after its first, linear layer
    action_mlp_scale: int = 4  # hidden layer of the action encoder, in multiples of `latent_dim`
    history: int = 3  # maximum number of frames that the predictor reads
    predictor_width: int = 192
    depth: int = 6
    heads: int = 16
    dim_head: int = 64
    mlp: int = 2048
    dropout: float = 0.1  # dropout in the predictor's attention and MLPs


class PublicParts(Parts):
    """Encoder, projector, action encoder and predictor.

    >>> parts = PublicParts(PublicArchitecture(image_size=56, encoder_depth=1, depth=1)).eval()
    >>> parts.embed(torch.zeros(2, 56, 56, 3, dtype=torch.uint8)).shape
    torch.Size([2, 192])
    """

    together = 1  # a frame is 257 tokens, enough for a matrix product

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.pixels, self.latent_dim = architecture.image_size, architecture.latent_dim
        self.history = architecture.history
        # On the CPU even when the parts are built on the meta device, because no state dict holds these two.
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN, device="cpu"), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD, device="cpu"), persistent=False)
        width = architecture.latent_dim
        self.encoder = _VisionTransformer(architecture)
        self.projector = _projector(
            architecture.encoder_width, architecture.projector_hidden, width, architecture.projector_norm
        )
        self.action_encoder = _ActionEncoder(architecture)
        self.predictor = Predictor(architecture)
        self.pred_proj = _projector(width, architecture.pred_proj_hidden, width, architecture.pred_proj_norm)
        self.register_load_state_dict_post_hook(_fold_again)

    def embed(self, inputs: Tensor) -> Tensor:
        """Frames uint8 [N, image_size, image_size, 3] -> latents [N, D]."""
        scaled = (inputs.float() / 255 - self.get_buffer("mean")) / self.get_buffer("std")
        return self.projector(self.encoder(scaled.permute(0, 3, 1, 2).contiguous()))

    def embed_actions(self, blocks: Tensor) -> list[Tensor]:
        """Standardised action blocks [..., A] -> shifts, scales and gates [..., 6 W] of every layer."""
        return self.predictor.transformer.modulations(self.action_encoder(blocks))

    def predict(
        self, window: Sequence[Tensor], actions: Sequence[Tensor], kept: Kept | None = None
    ) -> tuple[Tensor, Kept | None]:
        """Next latent [N, D] after a window."""
        following, kept = self.predictor(window, actions, kept)
        return self.pred_proj(following), kept


def _fold_again(parts: nn.Module, _: object) -> None:
    parts.train(parts.training)


def _projector(inputs: int, hidden: int | None, outputs: int, norm: Norm) -> nn.Module:
    """Two linear layers with a norm and a GELU between them: [N, inputs] -> [N, outputs]."""
    if hidden is None:
        return nn.Identity()
    between = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}[norm](hidden)
    return Net(nn.Linear(inputs, hidden), between, nn.GELU(), nn.Linear(hidden, outputs))


class _ActionEncoder(nn.Module):
    """Action blocks [..., A] -> [..., D], each block separately."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        smoothed, width = architecture.action_smoothed_dim, architecture.latent_dim
        hidden = architecture.action_mlp_scale * width
        self.patch_embed = nn.Conv1d(architecture.action_dim, smoothed, kernel_size=1)
        self.embed = nn.Sequential(nn.Linear(smoothed, hidden), nn.SiLU(), nn.Linear(hidden, width))

    def forward(self, blocks: Tensor) -> Tensor:
        return self.embed(functional.linear(blocks, self.patch_embed.weight[..., 0], self.patch_embed.bias))


class _VisionTransformer(nn.Module):
    """The ViT of Hugging Face without pooling: frames [N, 3, height, width] -> CLS tokens [N, encoder_width]."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.embeddings = _Embeddings(architecture)
        self.layers = nn.ModuleList(_EncoderLayer(architecture) for _ in range(architecture.encoder_depth))
        self.layernorm = nn.LayerNorm(architecture.encoder_width, eps=architecture.encoder_eps)
        self.apply(_initialise)

    def forward(self, frames: Tensor) -> Tensor:
        x = self.embeddings(frames)
        for layer in self.layers[:-1]:
            x = layer(x, x)
        return self.layernorm(self.layers[-1](x[:, :1], x)[:, 0])  # the last layer computes the CLS token only


class _Embeddings(nn.Module):
    """Frames [N, 3, image_size, image_size] -> the CLS token and the patches [N, 1 + patches, encoder_width]."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, patch = architecture.encoder_width, architecture.patch
        positions = (architecture.image_size // patch) ** 2 + 1
        self.cls_token = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, width), std=0.02))
        self.position_embeddings = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, positions, width), std=0.02))
        self.patch_embeddings = nn.ModuleDict({"projection": nn.Conv2d(3, width, patch, stride=patch)})

    def forward(self, frames: Tensor) -> Tensor:
        patches = self.patch_embeddings["projection"](frames).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(frames), -1, -1), patches], dim=1)
        return tokens + self.position_embeddings


class _EncoderLayer(nn.Module):
    """Attention and MLP with layer norms and residual connections, for K of L tokens [N, K, encoder_width]."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, eps = architecture.encoder_width, architecture.encoder_eps
        self.layernorm_before = nn.LayerNorm(width, eps=eps)
        self.attention = _EncoderAttention(architecture)
        self.layernorm_after = nn.LayerNorm(width, eps=eps)
        self.mlp = nn.ModuleDict(
            {"fc1": nn.Linear(width, architecture.encoder_mlp), "fc2": nn.Linear(architecture.encoder_mlp, width)}
        )

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        context = self.layernorm_before(context)
        x = x + self.attention(context[:, : x.shape[1]], context)
        return x + self.mlp["fc2"](functional.gelu(self.mlp["fc1"](self.layernorm_after(x))))


class _EncoderAttention(nn.Module):
    """Attention of tokens [N, K, encoder_width] to context [N, L, encoder_width] -> [N, K, encoder_width]."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, bias = architecture.encoder_width, architecture.encoder_qkv_bias
        self.heads = architecture.encoder_heads
        self.q_proj = nn.Linear(width, width, bias=bias)
        self.k_proj = nn.Linear(width, width, bias=bias)
        self.v_proj = nn.Linear(width, width, bias=bias)
        self.o_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        projected = (self.q_proj(x), self.k_proj(context), self.v_proj(context))
        parts = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        return self.o_proj(functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))


def _initialise(module: nn.Module) -> None:
    """Initialise linear layers as Hugging Face's ViT does."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
