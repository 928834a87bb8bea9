"""Encoding frames: the official encoder against that of transformers, the compact one against what is promised."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.data.latents import encode_logs
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.public import PublicArchitecture
from reachcost_tools.bench.entry import Entry, Side, Sides, in_threads
from reachcost_tools.bench.models import compact, official, random_frames
from reachcost_tools.bench.peers import normalised, public_model

CACHE_ROWS, CACHE_SECONDS = 632_749, 120.0
"""Frames of the public cache, which the compact model encodes in two minutes on two cores."""
FRAMES = 32
WITHIN = 1e-4
"""Largest difference of two latents, whose numbers are about 1."""


def encoding_entries() -> list[Entry]:
    """Both models; of the compact one, drawing the frames included."""
    entries = [
        Entry(
            f"encoding official, {in_threads(threads)}",
            f"our encoder against ViTModel of transformers, {FRAMES} frames of 224 px",
            partial(against_transformers, threads=threads),
            "frame",
            repeats=5,
            against="swm",
        )
        for threads in (1, 2)
    ]
    says = f"drawing and encoding logs, 64 px, against the promise of {CACHE_ROWS:,} frames in {CACHE_SECONDS:.0f} s"
    promise = Entry("encoding compact, 2 threads", says, against_promise, "frame", target=1.0)
    return [*entries, promise]


def against_promise(episodes: int = 500, threads: int = 2) -> Sides:
    """Logs of the first world through the bundled model."""
    logs, model = make_task().generate_logs(episodes), compact()
    ours = Side(lambda: encode_logs(model, logs, cache=False).values, logs.rows, threads)
    return Sides(ours, CACHE_SECONDS / CACHE_ROWS, counted=True)


def against_transformers(
    architecture: PublicArchitecture | None = None, count: int = FRAMES, threads: int = 1
) -> Sides:
    """Frames uint8 to latents on both sides, with the same weights."""
    model = official(architecture or PublicArchitecture(history=1))
    frames, theirs = random_frames(count, model.parts.pixels), public_model(model)
    ours = Side(lambda: model.encode({"pixels": frames}), count, threads)
    return Sides(ours, Side(partial(public_latents, theirs, frames), count, threads), WITHIN, counted=True)


@torch.inference_mode()
def public_latents(model: Any, frames: np.ndarray) -> Tensor:
    """Frames uint8 [N, height, width, 3] -> latents [N, D] of a model of stable-worldmodel."""
    return model.encode({"pixels": normalised(frames)[:, None]})["emb"][:, 0]
