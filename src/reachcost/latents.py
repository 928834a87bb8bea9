"""Encode logs once; everything after that works on latents."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reachcost.errors import ReachcostError
from reachcost.logs import Logs
from reachcost.protocols import WorldModel


@dataclass(frozen=True)
class Latents:
    """The latents of every log row, with the logs they came from.

    Attributes:
        values: float32 [R, D].
        logs: The logs, R rows.
    """

    values: Tensor
    logs: Logs

    def __post_init__(self) -> None:
        require_finite(self.values, "log row")


def encode_logs(model: WorldModel, logs: Logs) -> Latents:
    """Encode every row of the logs.

    >>> from reachcost.tasks import make_task
    >>> from reachcost.worldmodels.toponav import ExactTopoNav
    >>> encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=10)).values.shape[1]
    10
    """
    return Latents(model.encode(logs.columns), logs)


def require_finite(latents: Tensor, row_name: str) -> None:
    """Refuse latents [N, D] with NaN or infinity, and say which row has them first."""
    finite = torch.isfinite(latents.reshape(len(latents), -1)).all(1)
    if not finite.all():
        row = int((~finite).nonzero()[0])
        raise ReachcostError(
            f"the latent of {row_name} {row} is not finite ({int((~finite).sum())} of {len(latents)} are not): "
            "check that observation and the encoder's weights with reachcost.check_world_model"
        )
