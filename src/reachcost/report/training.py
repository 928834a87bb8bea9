"""What the record of a head tells a reader; everything in it is optional, as heads learn in many ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reachcost.core.json_files import read_as
from reachcost.report.charts import linear, polyline
from reachcost.report.page import number


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


# The panel

HEADS, EPOCHS = 6, 400
"""Maximum number of heads, and of epochs in a learning curve."""


def learning(heads: Mapping[str, Training]) -> dict[str, Any] | None:
    """Learning curves, labels, and the proof that no head saw the evaluation set; None without heads."""
    if not heads:
        return None
    shown = [*heads.items()][:HEADS]
    constant = any(record.references.constant.loss is not None for _, record in shown)
    lead = "Error on pairs of held-out episodes, by epoch, on a scale from 0"
    return {
        "lead": lead + ("; the dashed line is the best constant, which knows nothing." if constant else "."),
        "heads": [_head(name, record) for name, record in shown],
        "more": max(0, len(heads) - HEADS),
    }


def _head(name: str, record: Training) -> dict[str, Any]:
    pairs, exclusion = record.pairs, record.pairs.exclusion
    errors = {
        "this head": Errors(record.validation_loss, record.validation_rmse),
        "best constant": record.references.constant,
        "shuffled labels": record.references.shuffled or Errors(),
    }
    facts = {
        "labels": pairs.labels,
        "head seed": record.seed,
        "pairs of an epoch": pairs.train_pairs,
        "validation pairs": pairs.validation_pairs,
        "held-out episodes": pairs.held_out_episodes,
        "evaluation episodes kept out": exclusion.excluded_episodes,
        "pairs that touch them": exclusion.overlapping_pairs,
        "world model": pairs.model and pairs.model.name,
        "sha256 of the logs": pairs.logs_sha256 and f"{pairs.logs_sha256[:16]}…",
    }
    losses = [epoch.validation_loss for epoch in record.curve[:EPOCHS] if epoch.validation_loss is not None]
    panel = {
        "name": name,
        "errors": {name: one for name, one in errors.items() if one.loss is not None and one.rmse is not None},
        "facts": facts,
        "curve": None,
    }
    if len(losses) > 1:
        reference = record.references.constant.loss
        values = [*losses, *([] if reference is None else [reference])]
        height = linear(max(values), min(0.0, *values))  # y grows downwards
        panel["curve"] = {
            "points": polyline(losses, height),
            "reference": None if reference is None else height(reference),
            "text": (
                f"validation loss, {number(losses[0])} after the first of {len(losses)} epochs, "
                f"{number(min(losses))} at best"
            ),
        }
    return panel
