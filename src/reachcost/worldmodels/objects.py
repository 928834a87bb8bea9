"""Parts that look at the things that move: for worlds of few flat colours, in which a frame is mostly empty.

Nothing is declared of a world. What stands still and which colours move is measured on the logs; every frame is taken
apart into one map of coverage per moving colour; an object is the centroid of its map, its area and a crop around the
centroid. The rest, and every weight, is learned as in `compact.py`. Where a world has no things of one colour each,
the plain patches of `compact.py` are the choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.data.observations import frames
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts

DIFFERENT = 64
"""How far a pixel is from the still background, and moving colours from each other, summed over the three channels."""
AT_ONCE = 64
"""Frames that are taken apart together: always as many, and few enough to stay in the cache."""


@dataclass(frozen=True)
class ObjectArchitecture(CompactArchitecture):
    """Sizes of the parts that look at objects; those of patches are not used."""

    objects: int = 2
    """Colours that move."""
    crop: int = 24
    """Side of the crop around the centroid of an object."""
    crop_width: int = 256
    """Features of a crop."""
    proprio: int | None = 4
    """Numbers that the agent knows of itself, the column `proprio`; None if there is none."""


class ObjectParts(CompactParts):
    """Encoder, projector, action encoder and predictor; see `reachcost.worldmodels.jepa.Parts`.

    >>> parts = ObjectParts(ObjectArchitecture(proprio=None)).eval()
    >>> parts.embed(parts.inputs({"pixels": np.zeros((3, 64, 64, 3), np.uint8)})).shape
    torch.Size([3, 192])
    """

    architecture: ObjectArchitecture
    encoder: ObjectEncoder

    @staticmethod
    def _encoder(architecture: CompactArchitecture) -> nn.Module:
        assert isinstance(architecture, ObjectArchitecture)
        return ObjectEncoder(architecture)

    def inputs(self, observations: Observations) -> Tensor:
        """Crops, centroids, areas and proprioception, float32 [N, features]."""
        pixels = torch.from_numpy(frames(observations, self.pixels))
        filled = functional.pad(pixels, (0, 0) * 3 + (0, -len(pixels) % AT_ONCE))  # sums round alike in every batch
        seen = torch.cat([self.encoder.look(part.to(self.device)) for part in filled.split(AT_ONCE)])[: len(pixels)]
        if self.architecture.proprio is not None:
            seen = torch.cat([seen, self._proprio(observations, len(pixels))], dim=1)
        return seen.cpu()

    def _proprio(self, observations: Observations, rows: int) -> Tensor:
        wanted = (rows, self.architecture.proprio)
        if "proprio" not in observations or np.shape(observations["proprio"]) != wanted:
            raise ReachcostError(
                f"this model reads a column `proprio` of shape {wanted}: give it beside the frames, or name the world "
                "that has it (--task)"
            )
        own = torch.from_numpy(np.asarray(observations["proprio"], np.float32))
        return self.encoder.standardise(own.to(self.device))

    def measure(self, observations: Observations) -> None:
        """Find on logged rows what stands still, which colours move, and how far proprioception spreads."""
        self.encoder.measure(frames(observations, self.pixels))
        if self.architecture.proprio is not None:
            self.encoder.measure_proprio(np.asarray(observations["proprio"], np.float64))


class ObjectEncoder(nn.Module):
    """A crop of each object through two layers of its own; with centroids, areas and proprioception through a third."""

    unmix: Tensor
    """[objects, 4, pixels ** 2]: coverage of a pixel by a colour is affine in the colour of that pixel."""
    area: Tensor
    """Mean coverage of each colour [objects], in pixels."""
    proprio_mean: Tensor
    proprio_deviation: Tensor

    def __init__(self, architecture: ObjectArchitecture) -> None:
        super().__init__()
        self.pixels, self.crop = architecture.pixels, architecture.crop
        count, width, own = architecture.objects, architecture.crop_width, architecture.proprio or 0
        self.register_buffer("unmix", torch.zeros(count, 4, self.pixels**2))
        self.register_buffer("area", torch.ones(count))
        self.register_buffer("proprio_mean", torch.zeros(own))
        self.register_buffer("proprio_deviation", torch.ones(own))
        self.first = nn.ModuleList(nn.Linear(self.crop**2, width) for _ in range(count))
        self.second = nn.ModuleList(nn.Linear(width, width // 2) for _ in range(count))
        self.dense = nn.Linear(count * (width // 2 + 3) + own, architecture.dense_width)

    def forward(self, inputs: Tensor) -> Tensor:
        """What `ObjectParts.inputs` made [N, features] -> features [N, dense_width]."""
        side, count = self.crop**2, len(self.first)
        *crops, rest = inputs.split([side] * count + [inputs.shape[1] - side * count], dim=1)
        features = [rest]
        for crop, first, second in zip(crops, self.first, self.second, strict=True):
            hidden = functional.relu(first(crop), inplace=True)
            features.append(functional.relu(second(hidden), inplace=True))
        return functional.relu(self.dense(torch.cat(features, dim=1)), inplace=True)

    @torch.no_grad()
    def look(self, pixels: Tensor) -> Tensor:
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

    def standardise(self, proprio: Tensor) -> Tensor:
        """Proprioception [N, P] in units of its spread in the logs."""
        return (proprio - self.proprio_mean) / self.proprio_deviation

    @torch.no_grad()
    def measure(self, pixels: np.ndarray) -> None:
        """Measure background, moving colours and their areas on frames uint8 [N, pixels, pixels, 3]."""
        background = np.median(pixels, axis=0)
        colours = moving_colours(pixels, background, len(self.area))
        self.unmix.copy_(torch.from_numpy(_unmixing(background.reshape(-1, 3), colours)))
        self.area.fill_(1)
        parts = torch.from_numpy(pixels).to(self.area.device).split(AT_ONCE)
        areas = torch.cat([self.look(part)[:, -3 * len(colours) :] for part in parts])
        self.area.copy_(areas[:, 2::3].mean(0) + 1)

    def measure_proprio(self, proprio: np.ndarray) -> None:
        """Measure the spread of proprioception [N, P]."""
        self.proprio_mean.copy_(torch.from_numpy(proprio.mean(0)))
        self.proprio_deviation.copy_(torch.from_numpy(proprio.std(0) + 1e-6))


def moving_colours(pixels: np.ndarray, background: np.ndarray, count: int) -> np.ndarray:
    """The colours [count, 3] seen most often where frames differ from the background, and differ from each other.

    >>> frames = np.full((3, 8, 8, 3), 255, np.uint8)
    >>> for number, frame in enumerate(frames):
    ...     frame[number, :6], frame[number + 4, :2] = (0, 0, 255), (255, 0, 0)
    >>> moving_colours(frames, np.median(frames, axis=0), 2).tolist()
    [[0.0, 0.0, 255.0], [255.0, 0.0, 0.0]]
    """
    moved = pixels[np.abs(pixels - background).sum(-1) > DIFFERENT]
    seen, often = np.unique(moved.reshape(-1, 3), axis=0, return_counts=True)
    seen, found = seen.astype(np.float64), []
    for _ in range(count):
        if not often.any():
            raise ReachcostError(
                f"the frames of these logs show {len(found)} moving colours, not {count}: train the size compact"
            )
        found.append(seen[np.argmax(often)])
        often = np.where(np.abs(seen - found[-1]).sum(-1) > DIFFERENT, often, 0)
    return np.stack(found)


def _unmixing(background: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """How much of a pixel each colour covers, by least squares: background [P, 3], colours [K, 3] -> [K, 4, P].

    A pixel is a mixture of what stands still there and of the colours that cover a part of it.
    """
    towards = colours[None] - background[:, None]  # [P, K, 3]
    rows = np.linalg.pinv(towards.transpose(0, 2, 1), rcond=1e-3)  # [P, K, 3]
    still = -np.einsum("pkc,pc->pk", rows, background)
    return np.concatenate([rows, still[..., None]], axis=2).transpose(1, 2, 0).astype(np.float32)
