"""A head that is built already: the copy of it that `fit` trains, and what the record of that copy says."""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import Any

from torch import Tensor

from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe

BUILDING = ("head", "scale", "hidden", "symmetric", "options")
"""What of a recipe builds a head."""


def trainable_copy(head: LearnedHead, recipe: Recipe, latents: Tensor) -> LearnedHead:
    """A copy of the head to train, once head and recipe are found to go together.

    Frozen weights stay frozen, unless all are: a head that was trained or loaded before learns on.
    """
    if not isinstance(head, LearnedHead):
        raise ReachcostError(f"head= takes a LearnedHead, not {type(head).__name__}: make yours a subclass of it")
    usual = (Recipe(), Recipe.paper())
    changes = [[name for name in BUILDING if getattr(recipe, name) != getattr(one, name)] for one in usual]
    if all(changes):
        raise ReachcostError(
            f"the recipe sets {', '.join(min(changes, key=len))}, but head= is built already: "
            "give that to the constructor of the head instead"
        )
    trained = copy.deepcopy(head).eval()
    if not any(weight.requires_grad for weight in trained.parameters()):
        trained.requires_grad_(True)
    few = latents[:3]
    found = tuple(trained.scaled(few, few).shape)
    if not list(trained.parameters()) or found != few.shape[:1]:
        raise ReachcostError(
            f"cannot train {type(head).__name__}, which makes {found} of {len(few)} pairs of latents: "
            "give it parameters, and let `compare` map [N, D], [N, D] to [N]"
        )
    return trained


def record_of_copy(head: LearnedHead, recipe: Recipe, pairs: dict[str, Any]) -> dict[str, Any]:
    """How a copy of the head was trained: by a recipe that builds its like, on pairs, from the given weights."""
    options = {name: value for name, value in head.config.items() if name not in ("latent_dim", "scale")}
    kind = head.kind or type(head).__name__
    built = {"head": kind, "scale": head.scale, "hidden": None, "symmetric": None, "options": options}
    seen_before = head.record.get("pairs")
    return {
        "recipe": {**asdict(recipe), **built},
        "pairs": pairs if seen_before is None else _proved_twice(pairs, seen_before),
        "started_from": head.record,
    }


def _proved_twice(pairs: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The record of pairs, which proves nothing about evaluation sets that earlier training did not keep out."""
    proofs = [record.get("exclusion", {}) for record in (pairs, before)]
    now, earlier = (proof.get("evaluation_sets_sha256", []) for proof in proofs)
    both = [sha256 for sha256 in now if sha256 in earlier]
    rest = {name: value for name, value in pairs.items() if name != "exclusion"}
    return {**rest, "exclusion": {**proofs[0], "evaluation_sets_sha256": both}} if both else rest
