"""The predictor of the public checkpoints: a causal transformer over a few latents, modulated by the actions.

What a rollout repeats is done once, and nothing is computed that no one reads:

* a frame that sees itself alone attends to itself, so values and output are one matrix (`CausalAttention.folded`);
* shifts, scales and gates depend on the actions alone: one product a layer makes those of all steps (`modulations`);
* while the window grows, earlier frames keep their keys and values (`Kept`);
* in the last layer only the newest frame asks, and only its output is projected.

Shapes: N candidates, t frames that are new, p frames whose keys and values are kept, W width of the predictor.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.worldmodels.public_architecture import PublicArchitecture

Kept = list[tuple[Tensor, Tensor]]
"""Keys and values [p, N, heads, features] of the frames of a window, a pair per layer."""


class Predictor(nn.Module):
    """The latent after a window of latents, before its projection."""

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        self.history = architecture.history
        self.pos_embedding = nn.Parameter(torch.randn(1, architecture.history, architecture.latent_dim))
        self.dropout = nn.Dropout(architecture.embedding_dropout)
        self.transformer = ConditionalTransformer(architecture)

    def forward(
        self, window: Sequence[Tensor], modulations: Sequence[Tensor], kept: Kept | None
    ) -> tuple[Tensor, Kept | None]:
        """What follows a window of frames [N, D], oldest first -> [N, D], and what is kept while the window grows.

        Args:
            window: Up to `history` latents.
            modulations: Those of its frames, [frames, N, 6 W] a layer.
            kept: Of the window without its newest frame, if that began with the same frame.
        """
        seen = 0 if kept is None else len(kept[0][0])
        new = torch.stack([*window[seen:]]) + self.pos_embedding[0, seen : len(window), None]
        return self.transformer(
            self.dropout(new), [layer[seen:] for layer in modulations], kept, len(window) < self.history
        )


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

    def modulations(self, actions: Tensor) -> list[Tensor]:
        """Action embeddings [..., D] -> shifts, scales and gates [..., 6 W] of every layer."""
        condition = self.cond_proj(actions)
        return [layer.modulation(condition) for layer in self.layers]  # pyright: ignore[reportCallIssue]

    def forward(
        self, x: Tensor, modulations: Sequence[Tensor], kept: Kept | None, keep: bool
    ) -> tuple[Tensor, Kept | None]:
        """New frames [t, N, D] -> what follows the last of them [N, D], and the window's keys and values."""
        x, passed = self.input_proj(x), []
        for number, layer in enumerate(self.layers):
            asking = 1 if number == len(self.layers) - 1 else len(x)
            x, pair = layer(x, modulations[number], kept[number] if kept else None, asking, keep)
            passed.append(pair)
        return self.output_proj(self.norm(x[-1])), passed if keep else None


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

    def modulation(self, condition: Tensor) -> Tensor:
        """Shift, scale and gate of attention, then of the MLP, from conditions [..., W] -> [..., 6 W]."""
        modulation = self.adaLN_modulation(condition)
        modulation.unflatten(-1, (2, 3, -1))[..., 1, :].add_(1)  # a scale of zero changes nothing
        return modulation

    def forward(
        self, x: Tensor, modulation: Tensor, kept: tuple[Tensor, Tensor] | None, asking: int, keep: bool
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """New frames [t, N, W] -> the last `asking` of them after this layer, and keys and values of the window."""
        shift, scale, gate, *of_mlp = modulation.chunk(6, dim=-1)
        attended, pair = self.attn(torch.addcmul(shift, self.norm1(x), scale), kept, asking, keep)
        x = torch.addcmul(x[-asking:], gate[-asking:], attended)
        shift, scale, gate = (part[-asking:] for part in of_mlp)
        return torch.addcmul(x, gate, self.mlp(torch.addcmul(shift, self.norm2(x), scale))), pair


class CausalAttention(nn.Module):
    """Attention of each frame to itself and those before it."""

    frozen: Tensor | None

    def __init__(self, architecture: PublicArchitecture) -> None:
        super().__init__()
        width, inner = architecture.predictor_width, architecture.heads * architecture.dim_head
        self.heads, self.inner = architecture.heads, inner
        self.norm = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * inner, bias=False)
        # The public predictor leaves this layer out when a single head has the full width.
        single = architecture.heads == 1 and architecture.dim_head == width
        out = nn.Sequential(nn.Linear(inner, width), nn.Dropout(architecture.dropout))
        self.to_out = nn.Identity() if single else out
        self.register_buffer("frozen", None, persistent=False)

    def folded(self) -> Tensor:
        """Values and output as one matrix [W, W]: all there is to attention while a frame sees itself alone."""
        if self.frozen is not None:
            return self.frozen
        values, out = self.to_qkv.weight[2 * self.inner :], self._out()
        return values if out is None else out.weight @ values

    def _out(self) -> nn.Linear | None:
        return None if isinstance(self.to_out, nn.Identity) else self.to_out.get_submodule("0")  # pyright: ignore[reportReturnType]

    def train(self, mode: bool = True) -> CausalAttention:
        """Train, and fold whenever it is asked; or fold once for the weights as they are."""
        super().train(mode)
        self.frozen = None
        self.frozen = None if mode else self.folded().detach()
        return self

    def forward(
        self, x: Tensor, kept: tuple[Tensor, Tensor] | None, asking: int, keep: bool
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """New frames [t, N, W] -> what the last `asking` of them attend to, and keys and values of the window."""
        x = self.norm(x)
        before = 0 if kept is None else len(kept[0])
        window = before + len(x)
        pair = self._keys_and_values(x, kept) if keep or window > 1 else None
        attended = []
        if asking == window:
            attended.append(self._alone(x[:1]))
        if pair is not None and window > 1:
            first = max(1, window - asking)
            queries = functional.linear(x[first - before :], self.to_qkv.weight[: self.inner])
            attended.append(self.to_out(_attend(queries.unflatten(-1, (self.heads, -1)), *pair).flatten(-2)))
        return torch.cat(attended) if len(attended) > 1 else attended[0], pair if keep else None

    def _alone(self, x: Tensor) -> Tensor:
        """Attention of a frame to itself."""
        out = self._out()
        if out is None:
            return functional.linear(x, self.folded())
        return self.to_out.get_submodule("1")(functional.linear(x, self.folded(), out.bias))

    def _keys_and_values(self, x: Tensor, kept: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Of the whole window, each [p + t, N, heads, features]."""
        made = functional.linear(x, self.to_qkv.weight[self.inner :]).unflatten(-1, (2, self.heads, -1))
        keys, values = made.unbind(-3)
        return (keys, values) if kept is None else (torch.cat([kept[0], keys]), torch.cat([kept[1], values]))


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attention of the last frames of a window [t, N, heads, features], each to itself and those before it.

    A window is so short that products element by element are faster than matrices per candidate and head.
    """
    last, attended = len(keys) - len(queries) + 1, []
    for number, query in enumerate(queries):
        scores = (keys[: last + number] * query).sum(-1) * query.shape[-1] ** -0.5
        weights = scores.softmax(0)
        attended.append((weights[..., None] * values[: last + number]).sum(0))
    return torch.stack(attended)


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
        """[..., W] -> the same shape."""
        return self.net(x)


def _resize(inputs: int, outputs: int) -> nn.Module:
    return nn.Identity() if inputs == outputs else nn.Linear(inputs, outputs)
