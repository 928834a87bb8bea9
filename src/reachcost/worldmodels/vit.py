"""The vision transformer of the public checkpoints, with the names of its parts as in transformers 5."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.worldmodels.public_architecture import PublicArchitecture


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
        for layer in self.layers[:-1]:
            x = layer(x, x)
        return self.layernorm(self.layers[-1](x[:, :1], x)[:, 0])  # of the last layer the CLS token alone is read


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
    """Attention and MLP, each after a layer norm and around a residual connection, for the first K of L tokens."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, eps = architecture.encoder_width, architecture.encoder_eps
        self.layernorm_before = nn.LayerNorm(width, eps=eps)
        self.attention = EncoderAttention(architecture)
        self.layernorm_after = nn.LayerNorm(width, eps=eps)
        self.mlp = EncoderMLP(architecture)
        self.dropout = nn.Dropout(architecture.encoder_dropout)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Some tokens [N, K, encoder_width], which look at all [N, L, encoder_width] -> [N, K, encoder_width]."""
        seen = self.layernorm_before(context)
        x = x + self.dropout(self.attention(seen[:, : x.shape[1]], seen))
        return x + self.dropout(self.mlp(self.layernorm_after(x)))


class EncoderAttention(nn.Module):
    """Attention of some tokens to all."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, bias = architecture.encoder_width, architecture.encoder_qkv_bias
        self.heads, self.dropout = architecture.encoder_heads, architecture.encoder_attention_dropout
        self.q_proj = nn.Linear(width, width, bias=bias)
        self.k_proj = nn.Linear(width, width, bias=bias)
        self.v_proj = nn.Linear(width, width, bias=bias)
        self.o_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Tokens [N, K, encoder_width], which look at [N, L, encoder_width] -> [N, K, encoder_width]."""
        asked = (self.q_proj(x), self.k_proj(context), self.v_proj(context))
        parts = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in asked)
        dropout = self.dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(*parts, dropout_p=dropout)
        return self.o_proj(attended.transpose(1, 2).flatten(2))


class EncoderMLP(nn.Module):
    """Two layers with a GELU between them."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.fc1 = nn.Linear(architecture.encoder_width, architecture.encoder_mlp)
        self.fc2 = nn.Linear(architecture.encoder_mlp, architecture.encoder_width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens [N, L, encoder_width] -> the same shape."""
        return self.fc2(functional.gelu(self.fc1(x)))


def _initialise(module: nn.Module) -> None:
    """Start linear layers as Hugging Face's ViT does."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
