"""The architecture of the public LeWM and PLDM checkpoints, in plain torch.

A vision transformer reads a 224 px frame, a projector turns its CLS token into the latent, and a causal transformer
whose blocks the actions modulate (AdaLN-zero) predicts the next one. Modules and parameters carry the public names
(those of the ViT as in transformers 5), so a public state dict loads as it is; see `checkpoints.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.data.observations import frames
from reachcost.protocols import Observations

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Norm = Literal["batch", "layer", "none"]


@dataclass(frozen=True)
class PublicArchitecture:
    """Sizes of the public parts; the defaults are those of the public `lewm.yaml` (ViT-tiny)."""

    image_size: int = 224
    """Side of a frame."""
    patch: int = 14
    """Side of a patch."""
    encoder_width: int = 192
    """Features of a patch."""
    encoder_depth: int = 12
    """Layers of the encoder."""
    encoder_heads: int = 3
    """Attention heads of the encoder; they divide its width."""
    encoder_mlp: int = 768
    """Hidden layer of the encoder's MLPs."""
    encoder_eps: float = 1e-12
    """Of the encoder's layer norms."""
    encoder_qkv_bias: bool = True
    """Whether queries, keys and values have a bias."""
    encoder_dropout: float = 0.0
    """After embeddings, attention and MLPs of the encoder."""
    encoder_attention_dropout: float = 0.0
    """On the encoder's attention weights."""
    latent_dim: int = 192
    """Numbers in a latent."""
    projector_hidden: int | None = 2048
    """Hidden layer from CLS token to latent; None leaves the token as it is."""
    projector_norm: Norm = "batch"
    """What normalises that hidden layer."""
    pred_proj_hidden: int | None = 2048
    """Hidden layer from the predictor's output to the next latent; None leaves the output as it is."""
    pred_proj_norm: Norm = "batch"
    """What normalises that hidden layer."""
    action_dim: int = 10
    """Numbers in an action block."""
    action_smoothed_dim: int = 10
    """Numbers in a block after its first, linear layer."""
    action_mlp_scale: int = 4
    """Hidden layer of the action encoder, in multiples of `latent_dim`."""
    history: int = 3
    """Frames the predictor reads."""
    predictor_width: int = 192
    """Features of a frame in the predictor."""
    depth: int = 6
    """Blocks of the predictor."""
    heads: int = 16
    """Attention heads of the predictor."""
    dim_head: int = 64
    """Features of each of them."""
    mlp: int = 2048
    """Hidden layer of the predictor's MLPs."""
    dropout: float = 0.1
    """In the predictor's attention and MLPs."""
    embedding_dropout: float = 0.0
    """On what enters the predictor."""


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
        self.together = 4  # a frame is 257 tokens, enough for a matrix product
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

    def embed_actions(self, blocks: Tensor) -> Tensor:
        """Standardised action blocks [N, T, A] -> [N, T, D]: an action embedding has the size of a latent."""
        return self.action_encoder(blocks)

    def predict(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Latents [N, T, D] and action embeddings [N, T, D] -> the latent after each [N, T, D]."""
        return self.pred_proj(self.predictor(latents, actions).flatten(0, 1)).view_as(latents)


class VisionTransformer(nn.Module):
    """The ViT of Hugging Face without pooling: frames [N, 3, height, width] -> CLS tokens [N, encoder_width]."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.embeddings = Embeddings(architecture)
        self.layers = nn.ModuleList(EncoderLayer(architecture) for _ in range(architecture.encoder_depth))
        self.layernorm = nn.LayerNorm(architecture.encoder_width, eps=architecture.encoder_eps)
        self.apply(_initialise)

    def forward(self, frames: Tensor) -> Tensor:
        """Frames [N, 3, image_size, image_size] -> [N, encoder_width]."""
        x = self.embeddings(frames)
        for layer in self.layers:
            x = layer(x)
        return self.layernorm(x[:, 0])


class Embeddings(nn.Module):
    """Patches, the CLS token before them, and a learned position for each."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, patch = architecture.encoder_width, architecture.patch
        positions = (architecture.image_size // patch) ** 2 + 1
        self.cls_token = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, width), std=0.02))
        self.position_embeddings = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, positions, width), std=0.02))
        self.patch_embeddings = nn.ModuleDict({"projection": nn.Conv2d(3, width, patch, stride=patch)})
        self.dropout = nn.Dropout(architecture.encoder_dropout)

    def forward(self, frames: Tensor) -> Tensor:
        """Frames [N, 3, image_size, image_size] -> tokens [N, 1 + patches, encoder_width]."""
        patches = self.patch_embeddings["projection"](frames).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(frames), -1, -1), patches], dim=1)
        return self.dropout(tokens + self.position_embeddings)


class EncoderLayer(nn.Module):
    """Self-attention and MLP, each after a layer norm and around a residual connection."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, eps = architecture.encoder_width, architecture.encoder_eps
        self.layernorm_before = nn.LayerNorm(width, eps=eps)
        self.attention = EncoderAttention(architecture)
        self.layernorm_after = nn.LayerNorm(width, eps=eps)
        self.mlp = EncoderMLP(architecture)
        self.dropout = nn.Dropout(architecture.encoder_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens [N, L, encoder_width] -> the same shape."""
        x = x + self.dropout(self.attention(self.layernorm_before(x)))
        return x + self.dropout(self.mlp(self.layernorm_after(x)))


class EncoderAttention(nn.Module):
    """Attention of all tokens to all."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, bias = architecture.encoder_width, architecture.encoder_qkv_bias
        self.heads, self.dropout = architecture.encoder_heads, architecture.encoder_attention_dropout
        self.q_proj = nn.Linear(width, width, bias=bias)
        self.k_proj = nn.Linear(width, width, bias=bias)
        self.v_proj = nn.Linear(width, width, bias=bias)
        self.o_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens [N, L, encoder_width] -> the same shape."""
        parts = (_split(project(x), self.heads) for project in (self.q_proj, self.k_proj, self.v_proj))
        dropout = self.dropout if self.training else 0.0
        return self.o_proj(_join(functional.scaled_dot_product_attention(*parts, dropout_p=dropout)))


class EncoderMLP(nn.Module):
    """Two layers with a GELU between them."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.fc1 = nn.Linear(architecture.encoder_width, architecture.encoder_mlp)
        self.fc2 = nn.Linear(architecture.encoder_mlp, architecture.encoder_width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens [N, L, encoder_width] -> the same shape."""
        return self.fc2(functional.gelu(self.fc1(x)))


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
    """Action blocks [N, T, A] -> [N, T, D], each by itself."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        smoothed, width = architecture.action_smoothed_dim, architecture.latent_dim
        hidden = architecture.action_mlp_scale * width
        self.patch_embed = nn.Conv1d(architecture.action_dim, smoothed, kernel_size=1)
        self.embed = nn.Sequential(nn.Linear(smoothed, hidden), nn.SiLU(), nn.Linear(hidden, width))

    def forward(self, blocks: Tensor) -> Tensor:
        """Action blocks [N, T, A] -> [N, T, D]."""
        return self.embed(self.patch_embed(blocks.transpose(1, 2)).transpose(1, 2))


class Predictor(nn.Module):
    """A causal transformer over a window of latents, modulated by the actions."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.randn(1, architecture.history, architecture.latent_dim))
        self.dropout = nn.Dropout(architecture.embedding_dropout)
        self.transformer = ConditionalTransformer(architecture)

    def forward(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Latents [N, T, D] and action embeddings [N, T, D] -> [N, T, D]."""
        x = self.dropout(latents + self.pos_embedding[:, : latents.shape[1]])
        return self.transformer(x, actions)


class ConditionalTransformer(nn.Module):
    """AdaLN-zero blocks, with linear layers around them where the widths differ."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        outside, inside = architecture.latent_dim, architecture.predictor_width
        self.input_proj = _resize(outside, inside)
        self.cond_proj = _resize(outside, inside)
        self.layers = nn.ModuleList(ConditionalBlock(architecture) for _ in range(architecture.depth))
        self.norm = nn.LayerNorm(inside)
        self.output_proj = _resize(inside, outside)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Window [N, T, D] and conditions [N, T, D] -> [N, T, D]."""
        x, condition = self.input_proj(x), self.cond_proj(condition)
        for layer in self.layers:
            x = layer(x, condition)
        return self.output_proj(self.norm(x))


class ConditionalBlock(nn.Module):
    """Causal attention and MLP; the condition shifts, scales and gates both. At first it gates them shut."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width = architecture.predictor_width
        self.attn = CausalAttention(architecture)
        self.mlp = ConditionalMLP(architecture)
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        modulation = nn.Linear(width, 6 * width)
        nn.init.zeros_(modulation.weight)
        nn.init.zeros_(modulation.bias)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), modulation)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Window and conditions [N, T, predictor_width] -> the same shape."""
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(condition).chunk(6, dim=-1)
        x = x + gate * self.attn(self.norm1(x) * (1 + scale) + shift)
        return x + gate_mlp * self.mlp(self.norm2(x) * (1 + scale_mlp) + shift_mlp)


class CausalAttention(nn.Module):
    """Attention of each frame to itself and those before it."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, inner = architecture.predictor_width, architecture.heads * architecture.dim_head
        self.heads, self.dropout = architecture.heads, architecture.dropout
        self.norm = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * inner, bias=False)
        # The public predictor leaves this layer out when a single head has the full width.
        single = architecture.heads == 1 and architecture.dim_head == width
        out = nn.Sequential(nn.Linear(inner, width), nn.Dropout(architecture.dropout))
        self.to_out = nn.Identity() if single else out

    def forward(self, x: Tensor) -> Tensor:
        """Window [N, T, predictor_width] -> the same shape."""
        parts = (_split(part, self.heads) for part in self.to_qkv(self.norm(x)).chunk(3, dim=-1))
        dropout = self.dropout if self.training else 0.0
        return self.to_out(
            _join(functional.scaled_dot_product_attention(*parts, dropout_p=dropout, is_causal=x.shape[1] > 1))
        )


class ConditionalMLP(nn.Module):
    """A layer norm and two layers with a GELU between them."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width = architecture.predictor_width
        self.net = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, architecture.mlp),
            nn.GELU(),
            nn.Dropout(architecture.dropout),
            nn.Linear(architecture.mlp, width),
            nn.Dropout(architecture.dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Window [N, T, predictor_width] -> the same shape."""
        return self.net(x)


def _projector(inputs: int, hidden: int | None, outputs: int, norm: Norm) -> nn.Module:
    return nn.Identity() if hidden is None else Projector(inputs, hidden, outputs, norm)


def _resize(inputs: int, outputs: int) -> nn.Module:
    return nn.Identity() if inputs == outputs else nn.Linear(inputs, outputs)


def _split(x: Tensor, heads: int) -> Tensor:
    """[N, L, heads * features] -> [N, heads, L, features]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    """[N, heads, L, features] -> [N, L, heads * features]."""
    return x.transpose(1, 2).flatten(2)


def _initialise(module: nn.Module) -> None:
    """Start linear layers as Hugging Face's ViT does."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
