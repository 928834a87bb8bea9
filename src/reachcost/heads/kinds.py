"""The heads by name, as recipes and files call them; `register_head` adds one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import signature
from typing import Any, TypeVar

from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.heads.budget import BudgetHead
from reachcost.heads.embedding import EmbeddingHead
from reachcost.heads.euclidean import EuclideanHead
from reachcost.heads.iqe import IntervalHead
from reachcost.heads.mrn import ResidualHead
from reachcost.heads.pair import PairHead
from reachcost.heads.weighted import LinearHead, MahalanobisHead

BUILT_IN = (
    *(PairHead, EmbeddingHead, LinearHead, MahalanobisHead),
    *(EuclideanHead, IntervalHead, ResidualHead, BudgetHead),
)
KINDS: dict[str, type[LearnedHead]] = {head.kind: head for head in BUILT_IN}

_TYPES = {"int": int, "float": (int, float), "bool": bool}
Kind = TypeVar("Kind", bound=type[LearnedHead])


def register_head(head: Kind) -> Kind:
    """Make a class of heads known by its `kind`: recipes then build it, `save_head` and `load_head` take it.

    >>> import torch
    >>> @register_head
    ... class SquaredDistance(LearnedHead):
    ...     kind = "squared-distance"
    ...
    ...     def __init__(self, latent_dim: int, scale: float = 10.0) -> None:
    ...         super().__init__(latent_dim, scale)
    ...         self.weights = torch.nn.Parameter(torch.ones(latent_dim))
    ...
    ...     def compare(self, z, goal):
    ...         return (z - goal).square() @ self.weights
    >>> KINDS["squared-distance"] is SquaredDistance
    True
    """
    if not isinstance(head, type) or not issubclass(head, LearnedHead) or not head.kind:
        raise ReachcostError(f"cannot register {head!r}: give a subclass of LearnedHead that has a `kind`")
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
    """Whether two classes are one, perhaps defined again (a notebook's cell run twice)."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def refusal(kind: type[LearnedHead], arguments: Mapping[str, Any]) -> str:
    """Say why the constructor of a kind of head does not take these arguments; nothing if it does.

    Only the heads of this package have their values checked here: positive numbers and switches.

    >>> refusal(LinearHead, {"hidden": 8})
    "the linear head has no 'hidden', it knows latent_dim, scale"
    """
    known = signature(kind).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for name, value in arguments.items():
        if name not in known and not takes_any:
            return f"the {kind.kind} head has no {name!r}, it knows {', '.join(known)}"
        if not _is_json(value):
            return f"{name!r} of the {kind.kind} head is no JSON value"
        if kind in BUILT_IN:
            wanted = _TYPES[str(known[name].annotation)]
            if not isinstance(value, wanted) or (wanted is not bool and not 0 < value < float("inf")):
                return f"{name!r} of the {kind.kind} head must be a {'bool' if wanted is bool else 'positive number'}"
    return ""


def _is_json(value: Any) -> bool:
    """Whether a value comes back from JSON as it is."""
    try:
        return json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError, RecursionError):
        return False
