"""Encode logs once; everything after that works on latents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
        if len(self.values) != self.logs.rows:
            raise ReachcostError(
                f"there are {len(self.values)} latents for {self.logs.rows} log rows: encode exactly these rows"
            )
        require_finite(self.values, "log row")


@torch.no_grad()
def encode_logs(model: WorldModel, logs: Logs, batch: int = 1024) -> Latents:
    """Encode every row of the logs, `batch` rows at a time.

    >>> from reachcost.tasks import make_task
    >>> from reachcost.worldmodels.toponav import ExactTopoNav
    >>> encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=10)).values.shape[1]
    10
    """
    parts = []
    for start in range(0, logs.rows, batch):
        observations = logs.observations(slice(start, start + batch))
        try:
            parts.append(model.encode(observations))
        except KeyError as error:
            raise ReachcostError(
                f"the model reads a column {error} that these logs do not have (they have {', '.join(observations)}): "
                "logs of states alone offer pixels when opened with the task's `observe`"
            ) from error
    return Latents(torch.cat(parts), logs)


def require_finite(latents: Tensor, row_name: str, numbers: np.ndarray | None = None) -> None:
    """Refuse latents [N, D] with NaN or infinity, and say which row (by its number, if rows have any) is the first."""
    finite = torch.isfinite(latents.reshape(len(latents), -1)).all(1)
    if not finite.all():
        row = int((~finite).nonzero()[0])
        row = row if numbers is None else int(numbers[row])
        raise ReachcostError(
            f"the latent of {row_name} {row} is not finite ({int((~finite).sum())} of {len(latents)} are not): "
            "check that observation and the encoder's weights with reachcost.check_world_model"
        )
