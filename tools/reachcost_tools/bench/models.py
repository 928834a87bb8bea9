"""The world models that comparisons plan and encode with: the official size, and the compact one that is bundled."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from reachcost.data.actions import ActionBlocks
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model, zoo
from reachcost.worldmodels.public import PublicArchitecture, PublicParts

BLOCKS = ActionBlocks(mean=(0.0, 0.0), std=(1.0, 1.0), low=(-1.0, -1.0), high=(1.0, 1.0), length=5)


@cache
def official(architecture: PublicArchitecture) -> JepaWorldModel:
    """A model of the size of the public checkpoints, with random weights: how fast it is does not depend on them."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        parts = PublicParts(architecture)
        for name, tensor in parts.state_dict().items():
            if "running_var" in name:
                tensor.uniform_(0.5, 2)
            elif "adaLN" in name:  # zeros at first, under which actions would not matter
                tensor.add_(0.02 * torch.randn_like(tensor))
    return JepaWorldModel(parts, BLOCKS, clamp=False)


@cache
def compact() -> JepaWorldModel:
    """The first bundled model of the first world, without its clamp, which stable-worldmodel does not have."""
    name = next(name for name in zoo() if name.startswith(f"lewm-{make_task().name}-"))
    return load_world_model(name, clamp=False, device="cpu")


def random_frames(count: int, pixels: int) -> np.ndarray:
    """Frames uint8 [count, pixels, pixels, 3]."""
    return np.random.default_rng(0).integers(0, 256, (count, pixels, pixels, 3), dtype=np.uint8)
