"""Coordinates of logged states, and a linear probe that reads them from latents."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.subject import Subject, once
from reachcost.data.probe import LinearProbe, deviation, episode_split, fit_probe


@once
def split(subject: Subject) -> list[tuple[Tensor, np.ndarray]] | None:
    """Latents [N, D] and coordinates [N, K] of rows to fit on, and of rows of other episodes; None for short logs."""
    logs = subject.latents.logs
    parts = episode_split(logs)
    if "state" not in logs.columns or min(map(len, parts)) < 2:
        return None
    states = np.asarray(logs.columns["state"])
    read = states.reshape(len(states), -1)
    if subject.state_columns is not None:
        read = read[:, list(subject.state_columns)]
    elif subject.task is not None:
        read = subject.task.coordinates(states)
    return [(subject.latents.values[torch.from_numpy(rows)], read[rows]) for rows in parts]


@once
def probe(subject: Subject) -> LinearProbe | None:
    """A linear probe of the coordinates, fitted on four fifths of the episodes; None for short logs."""
    parts = split(subject)
    return None if parts is None else fit_probe(*parts[0], scaled=True)


def read(subject: Subject, latents: Tensor) -> Tensor:
    """Probed coordinates [N, K], each in units of its logged standard deviation; without a probe, the latents."""
    parts, fitted = split(subject), probe(subject)
    if parts is None or fitted is None:
        return latents
    return fitted(latents) / deviation(torch.as_tensor(parts[0][1], dtype=torch.float32))
