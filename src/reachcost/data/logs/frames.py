"""Encoded frames, decoded when they are read."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from reachcost.errors import ReachcostError

FORMATS = ("JPEG", "PNG")
"""Of images; others can make the decoder call programs."""


def decode_frame(path: Path, blob: bytes) -> np.ndarray:
    """The frame uint8 [height, width, 3] in the bytes of an image."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ReachcostError(f"{path} holds images: pip install 'reachcost[swm]' to read them") from error
    try:
        with Image.open(io.BytesIO(blob), formats=FORMATS) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, TypeError, Image.DecompressionBombError) as error:
        raise ReachcostError(f"{path}: a frame is no whole {' or '.join(FORMATS)} image ({error})") from error
