"""Encoding, drawing pairs and fitting, by pairs and by log rows.

Long logs are of one number a row, and their encoder is a cheap one of the kind that users write: drawing and encoding
ten million frames would take half an hour, and tell of that encoder alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import rmtree

import numpy as np
import torch
from torch import Tensor

from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import Observations
from reachcost_tools.bench.growth.curve import Curve

LATENT_DIM, STEPS = 64, 50
PAIRS, ROWS = 100_000, 100_000
"""Where the other of them grows."""
MANY = (10_000, 100_000, 1_000_000, 3_000_000, 10_000_000)
"""The most rows are 2.6 GB of latents, more than may be held."""
TRAINED = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
EPOCH = Recipe(epochs=1)


def learning_curves() -> list[Curve]:
    """Pairs from logs of one length, then logs of any length."""
    wave, rows, pairs = f"latents of {LATENT_DIM} numbers", f"{ROWS:,} log rows", f"{PAIRS:,} pairs"
    return [
        Curve("drawing by pairs", f"TemporalPairs of {rows}, {wave}", "pairs", MANY, drawing_by_pairs),
        Curve("fitting by pairs", f"an epoch of fit, {rows}, {wave}", "pairs", TRAINED, fitting_by_pairs),
        Curve("encoding by log rows", f"encode_logs with a cheap encoder, {wave}", "log rows", MANY, encoding_by_rows),
        Curve("drawing by log rows", f"TemporalPairs, {pairs}, {wave}", "log rows", MANY, drawing_by_rows),
        Curve("fitting by log rows", f"an epoch of fit, {pairs}, {wave}", "log rows", MANY, fitting_by_rows),
    ]


class Waves:
    """A model whose latents cost little."""

    latent_dim, action_dim, fingerprint = LATENT_DIM, 2, "waves-1"

    def encode(self, observations: Observations) -> Tensor:
        """One number of a row -> [N, D]."""
        return torch.sin(torch.from_numpy(observations["state"]) * torch.arange(1, LATENT_DIM + 1))

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Nothing moves: [B, T, D], [B, S, H, A] -> [B, S, D]."""
        return context[:, -1, None].expand(-1, actions.shape[1], -1)


def drawing_by_pairs(size: int, directory: Path) -> Callable[[], object]:
    """So many training pairs."""
    return partial(TemporalPairs, encoded(ROWS, directory), size)


def fitting_by_pairs(size: int, directory: Path) -> Callable[[], object]:
    """So many training pairs; an epoch sees each of them once."""
    return partial(fit, TemporalPairs(encoded(ROWS, directory), size), EPOCH)


def encoding_by_rows(size: int, directory: Path) -> Callable[[], object]:
    """So many rows; those of the last time are removed, or they would be read instead."""

    def work() -> object:
        rmtree(directory, ignore_errors=True)
        return encoded(size, directory)

    return work


def drawing_by_rows(size: int, directory: Path) -> Callable[[], object]:
    """From so many rows."""
    return partial(TemporalPairs, encoded(size, directory), PAIRS)


def fitting_by_rows(size: int, directory: Path) -> Callable[[], object]:
    """From so many rows."""
    return partial(fit, TemporalPairs(encoded(size, directory), PAIRS), EPOCH)


def encoded(rows: int, directory: Path) -> Latents:
    """Latents of episodes that are all the same wave, kept in a directory."""
    wave = np.linspace(0, 1, STEPS, dtype=np.float32)
    logs = Logs({"state": np.resize(wave, (rows, 1))}, np.full(rows // STEPS, STEPS))
    return encode_logs(Waves(), logs, cache=directory)
