"""The predictor of the public checkpoints: a causal transformer over a few latents, modulated by the actions.

It computes the same as the public one with less work:

* a frame that attends to itself only needs one matrix for values and output (`_CausalAttention.folded`);
* one product per layer computes shifts, scales and gates for all steps, because they depend on the actions only;
* earlier frames keep their keys and values while the window grows (`Kept`);
* the last layer computes the newest frame only.

Shapes: N candidates, t new frames, p frames with kept keys and values, W width of the predictor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from reachcost.worldmodels.public import PublicArchitecture

KeysAndValues = tuple[Tensor, Tensor]  # keys and values [p, N, heads, features] of the frames of a window
Kept = list[KeysAndValues]  # keys and values of every layer


class Predictor(nn.Module):
    """Predicts the latent after a window of latents, before its projection."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.history = architecture.history
        self.pos_embedding = nn.Parameter(torch.randn(1, architecture.history, architecture.latent_dim))
        self.transformer = _ConditionalTransformer(architecture)

    def forward(
        self, window: Sequence[Tensor], modulations: Sequence[Tensor], kept: Kept | None
    ) -> tuple[Tensor, Kept | None]:
        """Return the next frame [N, D] and what is kept, see `Parts.predict`; modulations are [frames, N, 6 W]."""
        known = 0 if kept is None else len(kept[0][0])
        new = torch.stack([*window[known:]]) + self.pos_embedding[0, known : len(window), None]
        new_modulations = [layer[known:] for layer in modulations]
        return self.transformer(new, new_modulations, kept, len(window) < self.history)


class _ConditionalTransformer(nn.Module):
    """AdaLN-zero blocks, between linear layers where the widths differ."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        outside, inside = architecture.latent_dim, architecture.predictor_width
        self.input_proj = _resize(outside, inside)
        self.cond_proj = _resize(outside, inside)
        self.layers = nn.ModuleList(_ConditionalBlock(architecture) for _ in range(architecture.depth))
        self.norm = nn.LayerNorm(inside)
        self.output_proj = _resize(inside, outside)

    def modulations(self, actions: Tensor) -> list[Tensor]:
        condition = self.cond_proj(actions)
        return [layer.modulation(condition) for layer in self.layers]  # pyright: ignore[reportCallIssue]

    def forward(
        self, x: Tensor, modulations: Sequence[Tensor], kept: Kept | None, keep: bool
    ) -> tuple[Tensor, Kept | None]:
        x, passed = self.input_proj(x), []
        for number, layer in enumerate(self.layers):
            wanted = 1 if number == len(self.layers) - 1 else len(x)
            x, pair = layer(x, modulations[number], kept[number] if kept else None, wanted, keep)
            passed.append(pair)
        return self.output_proj(self.norm(x[-1])), passed if keep else None


class _ConditionalBlock(nn.Module):
    """Causal attention and MLP. The condition shifts, scales and gates both; initially the gates are closed."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width = architecture.predictor_width
        self.attn = _CausalAttention(architecture)
        self.mlp = Net(
            nn.LayerNorm(width),
            nn.Linear(width, architecture.mlp),
            nn.GELU(),
            nn.Dropout(architecture.dropout),
            nn.Linear(architecture.mlp, width),
            nn.Dropout(architecture.dropout),
        )
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        modulation = nn.Linear(width, 6 * width)
        nn.init.zeros_(modulation.weight)
        nn.init.zeros_(modulation.bias)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), modulation)

    def modulation(self, condition: Tensor) -> Tensor:
        """Shift, scale and gate of attention, then of the MLP: conditions [..., W] -> [..., 6 W]."""
        modulation = self.adaLN_modulation(condition)
        modulation.unflatten(-1, (2, 3, -1))[..., 1, :].add_(1)  # a scale of zero changes nothing
        return modulation

    def forward(
        self, x: Tensor, modulation: Tensor, kept: KeysAndValues | None, wanted: int, keep: bool
    ) -> tuple[Tensor, KeysAndValues | None]:
        """New frames [t, N, W] -> the last `wanted` frames after this layer; keys and values of the window."""
        shift, scale, gate, *of_mlp = modulation.chunk(6, dim=-1)
        attended, pair = self.attn(torch.addcmul(shift, self.norm1(x), scale), kept, wanted, keep)
        x = torch.addcmul(x[-wanted:], gate[-wanted:], attended)
        shift, scale, gate = (part[-wanted:] for part in of_mlp)
        return torch.addcmul(x, gate, self.mlp(torch.addcmul(shift, self.norm2(x), scale))), pair


class _CausalAttention(nn.Module):
    """Attention of each frame to itself and earlier frames."""

    frozen: Tensor | None

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, inner = architecture.predictor_width, architecture.heads * architecture.dim_head
        self.heads, self.inner = architecture.heads, inner
        self.norm = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * inner, bias=False)
        # The public predictor has no output layer when a single head has the full width.
        single = architecture.heads == 1 and architecture.dim_head == width
        out = nn.Sequential(nn.Linear(inner, width), nn.Dropout(architecture.dropout))
        self.to_out: Any = nn.Identity() if single else out
        self.register_buffer("frozen", None, persistent=False)

    def folded(self) -> Tensor:
        """Values and output as one matrix [W, W], which is the attention of a frame to itself only."""
        if self.frozen is not None:
            return self.frozen
        values = self.to_qkv.weight[2 * self.inner :]
        return values if isinstance(self.to_out, nn.Identity) else self.to_out[0].weight @ values

    def train(self, mode: bool = True) -> _CausalAttention:
        """Fold once for the current weights in eval mode, and at every call in train mode."""
        super().train(mode)
        self.frozen = None
        self.frozen = None if mode else self.folded().detach()
        return self

    def forward(
        self, x: Tensor, kept: KeysAndValues | None, wanted: int, keep: bool
    ) -> tuple[Tensor, KeysAndValues | None]:
        """New frames [t, N, W] -> attention of the last `wanted` frames; keys and values of the window."""
        x = self.norm(x)
        before = 0 if kept is None else len(kept[0])
        window = before + len(x)
        pair = self._keys_and_values(x, kept) if keep or window > 1 else None
        attended = []
        if wanted == window:
            attended.append(self._attend_to_itself(x[:1]))
        if pair is not None and window > 1:
            first = max(1, window - wanted)
            queries = functional.linear(x[first - before :], self.to_qkv.weight[: self.inner])
            attended.append(self.to_out(_attend(queries.unflatten(-1, (self.heads, -1)), *pair).flatten(-2)))
        return torch.cat(attended) if len(attended) > 1 else attended[0], pair if keep else None

    def _attend_to_itself(self, x: Tensor) -> Tensor:
        if isinstance(self.to_out, nn.Identity):
            return functional.linear(x, self.folded())
        out, dropout = self.to_out
        return dropout(functional.linear(x, self.folded(), out.bias))

    def _keys_and_values(self, x: Tensor, kept: KeysAndValues | None) -> KeysAndValues:
        """Keys and values of the window, each [p + t, N, heads, features]."""
        made = functional.linear(x, self.to_qkv.weight[self.inner :]).unflatten(-1, (2, self.heads, -1))
        keys, values = made.unbind(-3)
        return (keys, values) if kept is None else (torch.cat([kept[0], keys]), torch.cat([kept[1], values]))


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention of the last frames of a window [t, N, heads, features].

    A window is so short that elementwise products are faster than matrices per candidate and head.
    """
    last, attended = len(keys) - len(queries) + 1, []
    for number, query in enumerate(queries):
        scores = (keys[: last + number] * query).sum(-1) * query.shape[-1] ** -0.5
        weights = scores.softmax(0)
        attended.append((weights[..., None] * values[: last + number]).sum(0))
    return torch.stack(attended)


class Net(nn.Module):
    """Layers under the name `net`, as in the public models."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.net = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Apply all layers."""
        return self.net(x)


def _resize(inputs: int, outputs: int) -> nn.Module:
    return nn.Identity() if inputs == outputs else nn.Linear(inputs, outputs)
