"""What a world model is trained to minimise: prediction of the next latent, and a term against collapse.

LeWM: SIGReg, every random projection of a batch of latents should look like a standard normal variable.
PLDM: variance and covariance (VICReg), temporal alignment, inverse dynamics.
Weights are those of the public training scripts.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

KNOTS = 17
SPAN = 3.0
MOVING = 0.5
"""Share of a latent's variance that is of what moves within a world, where there are several."""


def sigreg(latents: Tensor, directions: Tensor) -> Tensor:
    """Epps-Pulley distance of projected latents to a standard normal, averaged over time steps and directions.

    Shape: latents [T, N, D], directions [D, P] of length one -> scalar.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch._C.Generator object at ...>
    >>> directions = functional.normalize(torch.randn(8, 64), dim=0)
    >>> bool(sigreg(torch.randn(1, 500, 8), directions) < sigreg(torch.zeros(1, 500, 8), directions))
    True
    """
    return _EppsPulley.apply(latents @ directions)


class _EppsPulley(torch.autograd.Function):
    """N x integral of |characteristic function - that of a normal|^2 under a normal window, by the trapezoid rule.

    The knots are multiples of one step, so their cosines and sines follow from the first by the Chebyshev recurrence:
    one multiplication and addition each instead of 34 transcendental functions. The backward pass sums the two
    series by Clenshaw's recurrence. Four times as fast as the direct formula with automatic differentiation.
    """

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        step = SPAN / (KNOTS - 1)
        t = step * torch.arange(KNOTS, dtype=x.dtype, device=x.device)
        normal = torch.exp(-t.square() / 2)
        weights = 2 * step * normal
        weights[[0, -1]] /= 2
        cosine, sine = torch.cos(step * x), torch.sin(step * x)
        twice = 2 * cosine
        previous, current = (torch.ones_like(cosine), torch.zeros_like(sine)), (cosine, sine)
        means = [torch.stack([old[:, 0] for old in previous])]
        for _ in range(1, KNOTS):
            means.append(torch.stack([new.mean(1) for new in current]))
            following = tuple((twice * new).sub_(old) for old, new in zip(previous, current, strict=True))
            previous, current = current, following
        mean_cosine, mean_sine = torch.stack(means, dim=1)  # each [K, T, P]
        real, imaginary = mean_cosine - normal[:, None, None], mean_sine
        ctx.save_for_backward(t, weights, cosine, sine, real, imaginary)
        return torch.einsum("k,ktp->tp", weights, real.square() + imaginary.square()).mean() * x.shape[1]

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[override]
        t, weights, cosine, sine, real, imaginary = ctx.saved_tensors
        factor = gradient * 2 * (weights * t)[:, None, None] / real[0].numel()
        return _series(cosine, sine, (factor * imaginary)[:, :, None], (-factor * real)[:, :, None])


def _series(cosine: Tensor, sine: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Sum over k of a_k cos(k x) + b_k sin(k x), from cos x and sin x [T, N, P] and coefficients [K, T, 1, P]."""
    twice = 2 * cosine
    first = [torch.zeros_like(cosine), torch.zeros_like(cosine)]
    second = [torch.zeros_like(cosine), torch.zeros_like(cosine)]
    for k in range(len(a) - 1, 0, -1):
        for series, coefficients in ((first, a), (second, b)):
            following = torch.addcmul(coefficients[k] - series[1], twice, series[0])
            series[1], series[0] = series[0], following
    return a[0] + cosine * first[0] - first[1] + sine * second[0]


def lewm_loss(
    latents: Tensor, predicted: Tensor, directions: Tensor, weight: float = 0.09, worlds: int = 0
) -> dict[str, Tensor]:
    """Losses of LeWM: latents [N, T, D], predictions [N, T - 1, D] of those after the first, directions [D, P].

    Of N windows of several worlds, those of one world next to each other, SIGReg looks twice: at the latents, and at
    how they differ from the mean of their world, which has a share of the variance to itself. Without it what tells
    worlds apart, and is easy to predict as it never moves, would fill the latent.
    """
    prediction = functional.mse_loss(predicted, latents[:, 1:])
    regular = sigreg(latents.transpose(0, 1), directions)
    if worlds:
        alike = latents.reshape(worlds, -1, latents.shape[-1])
        moving = (alike - alike.mean(1, keepdim=True)).view_as(latents) / MOVING**0.5
        regular = (regular + sigreg(moving.transpose(0, 1), directions)) / 2
    return {"loss": prediction + weight * regular, "prediction": prediction, "sigreg": regular}


def pldm_loss(
    latents: Tensor,
    predicted: Tensor,
    acted: Tensor,
    actions: Tensor,
    std: float = 18.0,
    std_time: float = 0.7,
    covariance: float = 12.0,
    alignment: float = 0.2,
    inverse: float = 1.0,
) -> dict[str, Tensor]:
    """Losses of PLDM: latents [N, T, D], predictions [N, T - 1, D], actions inferred and taken [N, T - 1, A]."""
    centred = latents - latents.mean(0, keepdim=True)
    terms = {
        "prediction": functional.mse_loss(predicted, latents[:, 1:]),
        "std": functional.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean(),
        "std_time": functional.relu(1 - (centred.var(1) + 1e-4).sqrt()).mean(),
        "covariance": _off_diagonal(centred),
        "alignment": functional.mse_loss(latents[:, :-1], latents[:, 1:]),
        "inverse": functional.mse_loss(acted, actions),
    }
    weights = (1.0, std, std_time, covariance, alignment, inverse)
    loss = torch.stack([weight * term for weight, term in zip(weights, terms.values(), strict=True)]).sum()
    return {"loss": loss, **terms}


def _off_diagonal(centred: Tensor) -> Tensor:
    """Mean square of the covariances between different components, per time step: [N, T, D] -> scalar."""
    count, _, width = centred.shape
    covariance = torch.einsum("nti,ntj->tij", centred, centred) / (count - 1)
    squares = covariance.square().sum((1, 2)) - covariance.diagonal(dim1=1, dim2=2).square().sum(1)
    return squares.mean() / (width * (width - 1))
