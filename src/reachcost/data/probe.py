"""A linear probe: how well a ridge regression reads quantities of the world out of latents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError

PROBE_ROWS = 20_000
"""Logged rows of the paper's probe; four fifths are fitted on."""


@dataclass(frozen=True)
class LinearProbe:
    """An affine map from latents to K targets.

    Attributes:
        weight: float32 [D, K].
        bias: float32 [K].
    """

    weight: Tensor
    bias: Tensor

    def __call__(self, latents: Tensor) -> Tensor:
        """Decode latents [..., D] -> [..., K]."""
        if latents.shape[-1] != len(self.weight):
            raise ReachcostError(
                f"the probe reads latents [..., {len(self.weight)}], not {tuple(latents.shape)}: fit another probe"
            )
        return latents @ self.weight + self.bias


@dataclass(frozen=True)
class ProbeScore:
    """Error on rows the probe was not fitted on: RMSE over all targets, and the mean coefficient of determination."""

    rmse: float
    r2: float


def episode_split(logs: Logs) -> tuple[np.ndarray, np.ndarray]:
    """Random rows to fit on, and rows of another fifth of the episodes to score on."""
    sampled = generator(0, "probe").permutation(logs.rows)[:PROBE_ROWS]
    unseen = generator(0, "probe-episodes").permutation(len(logs))[: len(logs) // 5]
    held_out = np.isin(logs.episode_of(sampled), unseen)
    return sampled[~held_out], sampled[held_out]


def fit_probe(latents: Tensor, targets: np.ndarray, scaled: bool = False) -> LinearProbe:
    """Ridge regression with penalty 1 and an unpenalised intercept: latents [N, D], targets [N, K].

    With `scaled`, the penalty does not depend on the unit of the latents.

    >>> latents = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> probe = fit_probe(latents, latents.numpy() @ np.array([[1.0], [2.0], [0.0]]))
    >>> torch.allclose(probe.weight[:, 0], torch.tensor([1.0, 2.0, 0.0]), atol=0.02)
    True
    """
    if len(latents) != len(targets) or len(latents) < 2:
        raise ReachcostError(f"{len(latents)} latents and {len(targets)} targets: a probe needs two or more of both")
    x, y = latents.double(), torch.as_tensor(np.asarray(targets, np.float64))
    x_mean, y_mean = x.mean(0), y.mean(0)
    unit = column_deviation(x) if scaled else torch.ones_like(x_mean)
    x, y = (x - x_mean) / unit, y - y_mean
    weight = torch.linalg.solve(x.T @ x + torch.eye(x.shape[1], dtype=x.dtype), x.T @ y) / unit[:, None]
    return LinearProbe(weight.float(), (y_mean - x_mean @ weight).float())


def column_deviation(values: Tensor) -> Tensor:
    """Standard deviation of each column [N, D] -> [D]; 1 for a constant column."""
    deviation = values.std(0, correction=0)
    return torch.where(deviation > 0, deviation, 1.0)


def add_random_features(latents: Tensor, features: int = 256) -> Tensor:
    """Latents [N, D] and fixed random features of them [N, D + features], so that a linear probe reads curves, too."""
    random = torch.Generator().manual_seed(0)
    directions = torch.randn(latents.shape[1], features, generator=random) / latents.shape[1] ** 0.5
    shifts = torch.randn(features, generator=random)
    return torch.cat([latents, torch.relu(latents @ directions + shifts)], dim=1)


def score_probe(probe: LinearProbe, latents: Tensor, targets: np.ndarray) -> ProbeScore:
    """Compare decoded latents [N, D] with targets [N, K]."""
    return score_readings(probe(latents).numpy(), targets)


def score_readings(read: np.ndarray, targets: np.ndarray) -> ProbeScore:
    """Compare values read by a probe [N, K] with targets [N, K]."""
    targets = np.asarray(targets, np.float64)
    error = np.asarray(read, np.float64) - targets
    r2 = 1 - (error**2).sum(0) / ((targets - targets.mean(0)) ** 2).sum(0)
    return ProbeScore(float(np.sqrt((error**2).mean())), float(r2.mean()))
