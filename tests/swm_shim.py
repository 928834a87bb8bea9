"""Import the real stable-worldmodel beside a CPU build of torch.

PyPI's torchvision is built for CUDA; its import looks for two operators that a CPU torch does not have. Declaring them
is enough, as nothing here calls them.
"""

from __future__ import annotations

import warnings

import torch


def import_stable_worldmodel() -> None:
    """Make `gymnasium.make("swm/TwoRoom-v1")` and `stable_worldmodel.data` work."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import stable_worldmodel  # noqa: F401
