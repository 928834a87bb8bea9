"""Kinds of heads by name, and recipes: how a head is built and trained."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from reachcost.errors import ReachcostError, require_numbers
from reachcost.heads.base import LearnedHead
from reachcost.heads.kinds import BUILT_IN

KINDS: dict[str, type[LearnedHead]] = {head.kind: head for head in BUILT_IN}

_TYPES = {"int": int, "float": (int, float), "bool": bool}
Kind = TypeVar("Kind", bound=type[LearnedHead])


def register_head(head: Kind) -> Kind:
    """Register a class of heads by its `kind`, for recipes, `save_head` and `load_head`."""
    if not isinstance(head, type) or not issubclass(head, LearnedHead) or not head.kind:
        raise ReachcostError(f"cannot register {head!r}: give a subclass of LearnedHead with a `kind`")
    if wrong := refusal(head, {"latent_dim": 1, "scale": 1.0}):
        raise ReachcostError(f"cannot register {head.__name__}: {wrong}: let its constructor take latent_dim and scale")
    known = KINDS.get(head.kind, head)
    if not is_same_class(known, head):
        raise ReachcostError(
            f"{known.__name__} is the head of kind {head.kind!r} already: give {head.__name__} another `kind`"
        )
    KINDS[head.kind] = head
    return head


def is_same_class(one: type, other: type) -> bool:
    """Whether two classes have the same name and module, as if a notebook cell ran twice."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def refusal(kind: type[LearnedHead], arguments: Mapping[str, Any]) -> str:
    """Why the constructor of a kind of head refuses these arguments; empty if it accepts them.

    Values are only checked for the heads of this package.
    """
    known = signature(kind).parameters
    for name, value in arguments.items():
        if name not in known:
            return f"the {kind.kind} head has no {name!r}, it knows {', '.join(known)}"
        if not _is_json(value):
            return f"{name!r} of the {kind.kind} head is not a JSON value"
        if kind in BUILT_IN:
            wanted = _TYPES[str(known[name].annotation)]
            if not isinstance(value, wanted) or (wanted is not bool and not 0 < value < float("inf")):
                return f"{name!r} of the {kind.kind} head must be a {'bool' if wanted is bool else 'positive number'}"
    return ""


def _is_json(value: Any) -> bool:
    """Whether a value is the same after a round trip through JSON."""
    try:
        return json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError, RecursionError):
        return False


def require_positive(recipe: Any, what: str, *names: str) -> None:
    """Refuse a recipe with a field that holds a value of another type, or one of these without a positive number."""
    require_numbers(recipe)
    for name in names:
        if not 0 < getattr(recipe, name) < float("inf"):
            raise ReachcostError(f"{what}: {name} is {getattr(recipe, name)}: make it positive")


@dataclass(frozen=True)
class Recipe:
    """How a head is built and trained. The defaults are ours; `Recipe.paper()` has the paper's.

    Attributes:
        head: Kind of the head: embedding, pair, linear, mahalanobis, euclidean, iqe, mrn, budget or a registered one.
        scale: Steps, or other units of the label, per unit of the network's output.
        hidden: Width of the hidden layers; None for the default of the head.
        symmetric: Average both input orders of a pair head; None for the default of the head.
        options: Further arguments of the head as JSON values, such as `{"embedding": 128}`.
        epochs: Passes over the training pairs.
        batch_size: Pairs per update.
        learning_rate: AdamW learning rate; the maximum of the one-cycle schedule.
        weight_decay: AdamW weight decay.
        schedule: Learning rate over the updates.
        fresh: Sample new training pairs for every epoch.
        loss: Predict labels, or only which of two pairs has the larger label.
        expectile: Weight of a prediction below its label; a prediction above has the rest. Below 0.5 the head
            prefers short logged times. Always 0.5 for a ranking.
    """

    head: str = "embedding"
    scale: float = 10.0
    hidden: int | None = None
    symmetric: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    epochs: int = 8
    batch_size: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    schedule: Literal["constant", "one-cycle"] = "one-cycle"
    fresh: bool = True
    loss: Literal["regression", "ranking"] = "regression"
    expectile: float = 0.05

    @classmethod
    def paper(cls, **changes: Any) -> Recipe:
        """The recipe of the paper, with changes.

        >>> Recipe.paper(epochs=24).batch_size
        1024
        """
        updates = {"epochs": 20, "batch_size": 1024, "learning_rate": 1e-3, "schedule": "constant", "fresh": False}
        return cls(**{"head": "pair", "scale": 224.0, "expectile": 0.5, **updates, **changes})

    def __post_init__(self) -> None:
        require_positive(self, "recipe", "scale", "epochs", "batch_size", "learning_rate")
        object.__setattr__(self, "options", copy.deepcopy(dict(self.options)))
        if not 0 < self.expectile < 1:
            raise ReachcostError(
                f"recipe: expectile is {self.expectile}: give 0.5 for the mean, or another between 0 and 1"
            )
        known = {"schedule": ("constant", "one-cycle"), "loss": ("regression", "ranking"), "head": (*KINDS,)}
        for name, choices in known.items():
            if getattr(self, name) not in choices:
                custom = ", or import the module that registers yours" if name == "head" else ""
                raise ReachcostError(
                    f"recipe: unknown {name} {getattr(self, name)!r}: choose one of {', '.join(choices)}{custom}"
                )
        if self.loss == "ranking":
            if self.expectile not in (Recipe.expectile, 0.5):
                raise ReachcostError(f"recipe: a ranking has no expectile, but it is {self.expectile}: leave it out")
            object.__setattr__(self, "expectile", 0.5)
        twice = [name for name in ("latent_dim", *self._named) if name in self.options]
        if wrong := f"options repeat {twice[0]!r}" if twice else refusal(KINDS[self.head], self.arguments):
            raise ReachcostError(f"recipe: {wrong}: leave it out, or choose another head")

    @property
    def _named(self) -> dict[str, Any]:
        """The arguments of the head that are fields of the recipe."""
        given = {"hidden": self.hidden, "symmetric": self.symmetric}
        return {"scale": self.scale, **{name: value for name, value in given.items() if value is not None}}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the head in addition to the latent dimension; others have their defaults."""
        return {**self._named, **copy.deepcopy(dict(self.options))}

    def build(self, latent_dim: int) -> LearnedHead:
        """A new head of this kind, with random weights."""
        return KINDS[self.head](latent_dim=latent_dim, **self.arguments)

    def losses(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Loss of each scaled prediction [P] against its scaled label [P]."""
        if self.loss == "ranking":  # the logistic loss of the order of each pair and its neighbour in the batch
            sign = torch.sign(target - target.roll(1))
            return functional.softplus(-sign * (predicted - predicted.roll(1)))
        loss = functional.smooth_l1_loss(predicted, target, reduction="none")
        if self.expectile == 0.5:
            return loss
        return loss * torch.where(predicted < target, 2 * self.expectile, 2 * (1 - self.expectile))
