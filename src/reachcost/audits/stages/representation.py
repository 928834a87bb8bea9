"""Representation: can a probe read every coordinate that a frame shows from its latent?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.stage import Rule, Stage, apply_rule, unknown
from reachcost.audits.subject import Subject, once
from reachcost.data.probe import LinearProbe, add_random_features, column_deviation, episode_split, fit_probe

RULE = Rule(
    "representation",
    "R2 of the worst coordinate",
    0.9,
    True,
    "a coordinate cannot be read from the latent: look at the world model first, and at what one frame can show",
)
LOST = 0.5  # without a simulator the stage fails below this R2, and is unknown between this and the threshold


def measure(subject: Subject) -> Stage:
    """R2 of a probe on episodes that it was not fitted on; the worst coordinate counts."""
    rule = subject.rule(RULE)
    parts = split(subject)
    if parts is None:
        return unknown(rule, "needs logs with a column `state`, of five or more episodes")
    (latents, targets), (unseen, known) = parts
    varies = known.std(0) > 1e-6 * np.abs(known).max(initial=1e-12)
    if not varies.any():
        return unknown(rule, "no coordinate varies in the logs: look at their column `state`")
    middle, unit = latents.mean(0), column_deviation(latents)
    latents, unseen = (add_random_features((part - middle) / unit) for part in (latents, unseen))
    read = fit_probe(latents, targets)(unseen).double().numpy()
    r2 = 1 - ((read - known) ** 2).sum(0)[varies] / ((known - known.mean(0)) ** 2).sum(0)[varies]
    worst = float(r2.min())
    stage = apply_rule(rule, worst)
    if subject.simulator is None and LOST <= worst < rule.threshold:
        return replace(stage, outcome="unknown", advice=f"a coordinate is read poorly: {rule.advice}")
    return stage


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
    return fitted(latents) / column_deviation(torch.as_tensor(parts[0][1], dtype=torch.float32))
