"""What the record of a head tells a reader; everything in it is optional, as heads learn in many ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reachcost.core.json_files import read_as


@dataclass(frozen=True)
class Errors:
    """How far a head is off."""

    loss: float | None = None
    rmse: float | None = None


@dataclass(frozen=True)
class References:
    """Heads that cannot know anything."""

    constant: Errors = field(default_factory=Errors)
    shuffled: Errors | None = None


@dataclass(frozen=True)
class Exclusion:
    """What was kept out of training."""

    excluded_episodes: int | None = None
    overlapping_pairs: int | None = None


@dataclass(frozen=True)
class Model:
    """The world model behind the latents."""

    name: str | None = None


@dataclass(frozen=True)
class Drawn:
    """The pairs it learned from."""

    labels: str | None = None
    train_pairs: int | None = None
    validation_pairs: int | None = None
    held_out_episodes: int | None = None
    logs_sha256: str | None = None
    exclusion: Exclusion = field(default_factory=Exclusion)
    model: Model | None = None


@dataclass(frozen=True)
class Epoch:
    """One line of the learning curve."""

    validation_loss: float | None = None


@dataclass(frozen=True)
class Training:
    """How a head was trained."""

    seed: int | None = None
    pairs: Drawn = field(default_factory=Drawn)
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
