"""Sizes of the public LeWM and PLDM checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
