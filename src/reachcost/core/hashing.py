"""Fingerprints by which records refer to their inputs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from reachcost.core.chunks import pieces
from reachcost.core.files import require_regular


def fingerprint_arrays(*arrays: np.ndarray) -> str:
    """sha256 over dtype, shape and bytes of the arrays, in order, read piece by piece."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        for piece in pieces(array):
            digest.update(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """sha256 of a file."""
    require_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
