"""How heads were trained: the parts of their records that a report shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reachcost.core.json_files import read_as
from reachcost.report.charts import linear, polyline

EPOCHS = 400
"""Maximum number of epochs of a learning curve."""


@dataclass(frozen=True)
class Errors:
    """Validation errors of a head."""

    loss: float | None = None
    rmse: float | None = None


@dataclass(frozen=True)
class References:
    """Validation errors of heads that cannot learn anything."""

    constant: Errors = field(default_factory=Errors)
    shuffled: Errors | None = None


@dataclass(frozen=True)
class Exclusion:
    """Proof that no evaluation episode was trained on."""

    excluded_episodes: int | None = None
    overlapping_pairs: int | None = None


@dataclass(frozen=True)
class Model:
    """The world model of the latents."""

    name: str | None = None


@dataclass(frozen=True)
class Pairs:
    """The training pairs."""

    labels: str | None = None
    train_pairs: int | None = None
    validation_pairs: int | None = None
    held_out_episodes: int | None = None
    logs_sha256: str | None = None
    exclusion: Exclusion = field(default_factory=Exclusion)
    model: Model | None = None


@dataclass(frozen=True)
class Epoch:
    """A point of the learning curve."""

    validation_loss: float | None = None


@dataclass(frozen=True)
class Training:
    """The record of a head. All values are optional, because heads are trained in several ways."""

    seed: int | None = None
    pairs: Pairs = field(default_factory=Pairs)
    validation_loss: float | None = None
    validation_rmse: float | None = None
    references: References = field(default_factory=References)
    curve: tuple[Epoch, ...] = ()

    @classmethod
    def of(cls, record: Mapping[str, Any], where: str) -> Training:
        """Read the record of a head.

        >>> Training.of({"seed": 3, "curve": [{"epoch": 1, "validation_loss": 0.5}]}, "a head").curve
        (Epoch(validation_loss=0.5),)
        """
        return read_as(cls, dict(record), where)


def learning_curve(record: Training) -> dict[str, Any] | None:
    """Points of the validation loss in a chart, and its reference line; None without two epochs."""
    losses = [epoch.validation_loss for epoch in record.curve[:EPOCHS] if epoch.validation_loss is not None]
    if len(losses) < 2:
        return None
    reference = record.references.constant.loss
    values = losses if reference is None else [*losses, reference]
    height = linear(max(values), min(0.0, *values))  # y points down
    return {
        "points": polyline(losses, height),
        "reference": None if reference is None else height(reference),
        "first": losses[0],
        "best": min(losses),
        "epochs": len(losses),
    }
