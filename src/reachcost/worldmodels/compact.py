"""World-model parts that two CPU cores train in minutes: 64 px frames, history 1, about a million weights.

`CompactParts` encode a frame by shared patch layers and one dense layer. `ObjectParts` suit worlds of few moving
colours: they measure the background and the moving colours on the logs, and encode a frame as centroid, area and crop
of each moving colour. The predictor has AdaLN blocks without attention, because its window holds one frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.data.observations import frames_of_size
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.worldmodels.jepa import Parts

DIFFERENT = 64  # minimum difference of two colours, summed over three channels, for them to count as different
AT_ONCE = 64  # frames that are encoded as objects together: a constant number, few enough to stay in the cache


@dataclass(frozen=True)
class CompactArchitecture:
    """Sizes of the compact parts."""

    action_dim: int = 10  # numbers in an action block
    latent_dim: int = 192
    pixels: int = 64
    patch: int = 8
    patch_width: int = 32
    merged_width: int = 128  # features of 2 x 2 merged patches
    dense_width: int = 256
    projector_width: int = 512
    action_width: int = 64
    blocks: int = 2  # AdaLN blocks of the predictor
    block_width: int = 384


class CompactParts(Parts):
    """Encoder, projector, action encoder and predictor.

    >>> parts = CompactParts(CompactArchitecture()).eval()
    >>> parts.embed(torch.zeros(3, 64, 64, 3, dtype=torch.uint8)).shape
    torch.Size([3, 192])
    """

    together = 128

    def __init__(self, architecture: CompactArchitecture, encoder: nn.Module | None = None) -> None:
        super().__init__()
        self.architecture = architecture
        self.pixels, self.latent_dim = architecture.pixels, architecture.latent_dim
        self.encoder = _PatchEncoder(architecture) if encoder is None else encoder
        self.projector = nn.Sequential(
            nn.Linear(architecture.dense_width, architecture.projector_width),
            nn.BatchNorm1d(architecture.projector_width),
            nn.ReLU(inplace=True),
            nn.Linear(architecture.projector_width, architecture.latent_dim),
        )
        width = architecture.action_width
        self.action_encoder = nn.Sequential(
            nn.Linear(architecture.action_dim, 2 * width), nn.SiLU(), nn.Linear(2 * width, width), nn.SiLU()
        )
        self.predictor = _Predictor(architecture)

    def embed(self, inputs: Tensor) -> Tensor:
        """Frames uint8 [N, pixels, pixels, 3] -> latents [N, D]."""
        return self.projector(self.encoder(inputs))

    def embed_actions(self, blocks: Tensor) -> list[Tensor]:
        """Action blocks [..., A] -> embeddings [..., E], the same for every layer."""
        return [self.action_encoder(blocks)]

    def predict(self, window: Sequence[Tensor], actions: Sequence[Tensor], kept: None = None) -> tuple[Tensor, None]:
        """Next latent [N, D] after the last of the window."""
        return self.predictor(window[-1], actions[0][-1]), None


class _PatchEncoder(nn.Module):
    """Frames uint8 [N, height, width, 3] -> features [N, dense_width], by shared patch layers and a dense layer."""

    def __init__(self, architecture: CompactArchitecture) -> None:
        super().__init__()
        self.side = architecture.pixels // architecture.patch
        self.patch = architecture.patch
        merged = (self.side // 2) ** 2
        self.patches = nn.Linear(3 * self.patch**2, architecture.patch_width)
        self.merge = nn.Linear(4 * architecture.patch_width, architecture.merged_width)
        self.dense = nn.Linear(merged * architecture.merged_width, architecture.dense_width)

    def forward(self, pixels: Tensor) -> Tensor:
        count, side, patch = len(pixels), self.side, self.patch
        tiles = pixels.view(count, side, patch, side, 3 * patch).transpose(2, 3)
        tiles = tiles.reshape(count, side * side, -1).bitwise_not()  # dark on white becomes bright on zero
        x = tiles.float().mul_(1 / 64)  # about unit variance
        x = functional.relu(self.patches(x), inplace=True)
        x = x.view(count, side // 2, 2, side // 2, 2, -1).transpose(2, 3).reshape(count, (side // 2) ** 2, -1)
        x = functional.relu(self.merge(x), inplace=True).flatten(1)
        return functional.relu(self.dense(x), inplace=True)


class _Predictor(nn.Module):
    """Next latents from latents [N, D] and action embeddings [N, E], by AdaLN-zero blocks."""

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
        width = latents.shape[-1]
        modulation = self.modulation(actions).split(width, dim=-1)
        x = latents
        for block, (inner, outer) in enumerate(zip(self.inner, self.outer, strict=True)):
            shift, scale, gate = modulation[3 * block : 3 * block + 3]
            hidden = torch.addcmul(shift, functional.layer_norm(x, (width,)), 1 + scale)
            x = torch.addcmul(x, gate, outer(functional.relu(inner(hidden), inplace=True)))
        return self.project(x).add_(latents)


@dataclass(frozen=True)
class ObjectArchitecture(CompactArchitecture):
    """Sizes of the parts that encode objects; they do not use the sizes of patches."""

    objects: int = 2  # number of moving colours
    crop: int = 24  # side of the crop around the centroid of an object
    crop_width: int = 256
    proprio: int | None = 4  # numbers in the column `proprio`; None if there is no such column


class ObjectParts(CompactParts):
    """Parts that encode the moving colours.

    >>> parts = ObjectParts(ObjectArchitecture(proprio=None)).eval()
    >>> parts.embed(parts.inputs({"pixels": np.zeros((3, 64, 64, 3), np.uint8)})).shape
    torch.Size([3, 192])
    """

    architecture: ObjectArchitecture
    encoder: _ObjectEncoder

    def __init__(self, architecture: ObjectArchitecture) -> None:
        super().__init__(architecture, _ObjectEncoder(architecture))

    def inputs(self, observations: Observations) -> Tensor:
        """Crops, centroids, areas and proprioception, float32 [N, features]."""
        pixels = super().inputs(observations)
        padded = functional.pad(pixels, (0, 0) * 3 + (0, -len(pixels) % AT_ONCE))  # sums round alike in every batch
        objects = torch.cat([self.encoder.objects(part.to(self.device)) for part in padded.split(AT_ONCE)])
        if self.architecture.proprio is None:
            return objects[: len(pixels)].cpu()
        return torch.cat([objects[: len(pixels)], self._proprio(observations, len(pixels))], dim=1).cpu()

    def _proprio(self, observations: Observations, rows: int) -> Tensor:
        shape = (rows, self.architecture.proprio)
        if "proprio" not in observations or np.shape(observations["proprio"]) != shape:
            remedy = "add it to the observations, or choose the task that has it (--task)"
            raise ReachcostError(f"this model reads a column `proprio` of shape {shape}: {remedy}")
        proprio = torch.from_numpy(np.asarray(observations["proprio"], np.float32)).to(self.device)
        return (proprio - self.encoder.proprio_mean) / self.encoder.proprio_deviation

    def measure(self, observations: Observations) -> None:
        """Measure background, moving colours and the scale of proprioception on logged rows."""
        self.encoder.measure(frames_of_size(observations, self.pixels))
        if self.architecture.proprio is not None:
            proprio = np.asarray(observations["proprio"], np.float64)
            self.encoder.proprio_mean.copy_(torch.from_numpy(proprio.mean(0)))
            self.encoder.proprio_deviation.copy_(torch.from_numpy(proprio.std(0) + 1e-6))


class _ObjectEncoder(nn.Module):
    """Two layers per crop, and one for all crops, centroids, areas and proprioception -> [N, dense_width]."""

    unmix: Tensor  # [objects, 4, pixels ** 2]: coverage of a pixel by a colour is affine in the colour of that pixel
    area: Tensor  # mean coverage of each colour [objects], in pixels
    proprio_mean: Tensor
    proprio_deviation: Tensor

    def __init__(self, architecture: ObjectArchitecture) -> None:
        super().__init__()
        self.pixels, self.crop = architecture.pixels, architecture.crop
        count, width, proprio = architecture.objects, architecture.crop_width, architecture.proprio or 0
        self.register_buffer("unmix", torch.zeros(count, 4, self.pixels**2))
        self.register_buffer("area", torch.ones(count))
        self.register_buffer("proprio_mean", torch.zeros(proprio))
        self.register_buffer("proprio_deviation", torch.ones(proprio))
        self.first = nn.ModuleList(nn.Linear(self.crop**2, width) for _ in range(count))
        self.second = nn.ModuleList(nn.Linear(width, width // 2) for _ in range(count))
        self.dense = nn.Linear(count * (width // 2 + 3) + proprio, architecture.dense_width)

    def forward(self, inputs: Tensor) -> Tensor:
        side, count = self.crop**2, len(self.first)
        *crops, rest = inputs.split([side] * count + [inputs.shape[1] - side * count], dim=1)
        features = [rest]
        for crop, first, second in zip(crops, self.first, self.second, strict=True):
            hidden = functional.relu(first(crop), inplace=True)
            features.append(functional.relu(second(hidden), inplace=True))
        return functional.relu(self.dense(torch.cat(features, dim=1)), inplace=True)

    @torch.no_grad()
    def objects(self, pixels: Tensor) -> Tensor:
        """Crops, centroids and areas of frames uint8 [N, pixels, pixels, 3]: [N, objects * (crop ** 2 + 3)]."""
        count, side = len(pixels), self.pixels
        red, green, blue = pixels.view(count, -1, 3).float().unbind(-1)
        places = torch.arange(side, dtype=torch.float32, device=pixels.device)
        around = torch.arange(self.crop, device=pixels.device) - (self.crop - 1) / 2
        crops, rest = [], []
        for (one, two, three, none), area in zip(self.unmix, self.area, strict=True):
            covered = torch.addcmul(none, one, red).addcmul_(two, green).addcmul_(three, blue).clamp_(0, 1)
            covered = covered.view(count, side, side)
            total = covered.sum((1, 2))
            lines = torch.stack([covered.sum(2), covered.sum(1)])  # along y and x
            centre = torch.where(total > 0.5, (lines @ places) / total.clamp(min=0.5), (side - 1) / 2)
            near = functional.relu(1 - (places - centre[..., None, None] - around[:, None]).abs())  # [2, N, crop, side]
            crops.append((near[0] @ covered @ near[1].transpose(1, 2)).flatten(1).mul_(2))
            rest += [*((centre - (side - 1) / 2) * (4 / side)), total / area - 1]
        return torch.cat([*crops, torch.stack(rest, dim=1)], dim=1)

    @torch.no_grad()
    def measure(self, pixels: np.ndarray) -> None:
        """Measure background, moving colours and their areas on frames uint8 [N, pixels, pixels, 3]."""
        background = np.median(pixels, axis=0)
        colours = moving_colours(pixels, background, len(self.area))
        self.unmix.copy_(torch.from_numpy(_unmixing(background.reshape(-1, 3), colours)))
        self.area.fill_(1)
        parts = torch.from_numpy(pixels).to(self.area.device).split(AT_ONCE)
        areas = torch.cat([self.objects(part)[:, -3 * len(colours) :] for part in parts])
        self.area.copy_(areas[:, 2::3].mean(0) + 1)


def moving_colours(pixels: np.ndarray, background: np.ndarray, count: int) -> np.ndarray:
    """Return the most frequent colours [count, 3] that differ from the background and from each other.

    >>> frames = np.full((3, 8, 8, 3), 255, np.uint8)
    >>> for number, frame in enumerate(frames):
    ...     frame[number, :6], frame[number + 4, :2] = (0, 0, 255), (255, 0, 0)
    >>> moving_colours(frames, np.median(frames, axis=0), 2).tolist()
    [[0.0, 0.0, 255.0], [255.0, 0.0, 0.0]]
    """
    moved = pixels[np.abs(pixels - background).sum(-1) > DIFFERENT]
    colours, counts = np.unique(moved.reshape(-1, 3), axis=0, return_counts=True)
    colours, found = colours.astype(np.float64), []
    for number in range(count):
        if not counts.any():
            raise ReachcostError(f"the frames show {number} moving colours, not {count}: train the size compact")
        found.append(colours[np.argmax(counts)])
        counts = np.where(np.abs(colours - found[-1]).sum(-1) > DIFFERENT, counts, 0)
    return np.stack(found)


def _unmixing(background: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """Least-squares coverage of a pixel by each colour: background [P, 3], colours [K, 3] -> [K, 4, P].

    A pixel is a mixture of its background and of the colours that cover parts of it.
    """
    towards = colours[None] - background[:, None]  # [P, K, 3]
    rows = np.linalg.pinv(towards.transpose(0, 2, 1), rcond=1e-3)  # [P, K, 3]
    still = -np.einsum("pkc,pc->pk", rows, background)
    return np.concatenate([rows, still[..., None]], axis=2).transpose(1, 2, 0).astype(np.float32)
