"""The label specification: which pairs a head learns from, how they are labelled, and how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np

from reachcost.core.progress import Progress
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.recipe import Recipe
from reachcost.labels.imagined import Imagination, ImaginedPairs
from reachcost.labels.pairs import Pairs
from reachcost.labels.stitched import StitchedPairs, default_recipe
from reachcost.labels.temporal import TemporalPairs, directed
from reachcost.protocols import WorldModel

Labels = Literal["temporal", "stitched", "imagined", "mixed", "auto"]
"""Label source: times within one episode, shortest paths through all episodes, what the model imagines, both of the
last two, or the best of these that the logs support."""


@dataclass(frozen=True)
class LabelledRecipe:
    """A label source and a recipe, for `repair(recipe=...)`. By default the labels are logged times.

    Attributes:
        recipe: How the head is built and trained; shortest paths have another default.
        sampling: How temporal pairs are sampled, as for `TemporalPairs`.
        max_gap: The largest gap of a temporal pair; None for any.
        directed: Keep the times of both directions apart; temporal pairs then have the earlier row first.
        labels: Label source.
        imagination: Size of the imagination; None for the default.

    >>> LabelledRecipe(Recipe(head="pair"), directed=True).recipe.head
    'pair'
    >>> LabelledRecipe(labels="stitched").recipe.expectile
    0.5
    """

    recipe: Recipe = field(default_factory=Recipe)
    sampling: str = "balanced"
    max_gap: int | None = None
    directed: bool = False
    labels: Labels = "temporal"
    imagination: Imagination | None = None

    def __post_init__(self) -> None:
        """Refuse settings that are unknown or would be ignored, and fill in the recipe for shortest paths."""
        require_type(self.recipe, Recipe, "recipe", 'give a Recipe, and the label source as labels="auto"')
        require_type(self.directed, bool, "directed", "give True or False")
        if self.labels not in get_args(Labels):
            raise ReachcostError(f"there are no labels {self.labels!r}: choose one of {', '.join(get_args(Labels))}")
        require_label_settings(self.labels, self.sampling, self.max_gap, self.imagination)
        if self.labels == "auto" and self.directed:
            raise ReachcostError("auto labels measure whether they are directed: leave directed out")
        if self.labels in ("stitched", "imagined", "mixed") and self.recipe == Recipe():
            object.__setattr__(self, "recipe", default_recipe(self.directed))

    def recipe_for(self, pairs: Pairs) -> Recipe:
        """The recipe for these pairs: where `auto` chose the labels, by default the one of the chosen labels."""
        return pairs.default_recipe if self.labels == "auto" and self.recipe == Recipe() else self.recipe

    def pairs(
        self,
        latents: Latents,
        count: int,
        *,
        exclude: EvaluationSets = None,
        holdout: float = 0.0,
        seed: int = 0,
        model: WorldModel | None = None,
        progress: Progress | bool | None = None,
        **further: Any,
    ) -> Pairs:
        """Pairs of these latents with labels of this source; arguments as for the class of the pairs.

        Imagined labels need the `model` of the latents. `auto` is not a source: see `label_choice.labelled_pairs`.
        """
        given: dict[str, Any] = {"exclude": exclude, "holdout": holdout, "seed": seed, **further}
        if self.labels == "temporal":
            pairs = TemporalPairs(latents, count, sampling=self.sampling, max_gap=self.max_gap, **given)
            return directed(pairs) if self.directed else pairs
        given |= {"directed": self.directed, "progress": progress}
        if self.labels == "stitched":
            return StitchedPairs(latents, count, **given)
        if model is None:
            raise ReachcostError("imagined labels need the world model: call repair(model, logs), or give model=")
        mixed = self.labels == "mixed"
        return ImaginedPairs(model, latents, count, imagination=self.imagination, logged=mixed, **given)


def require_label_settings(labels: str, sampling: str, max_gap: int | None, imagination: Imagination | None) -> None:
    """Refuse settings that labels of this source would ignore."""
    if labels != "temporal" and (sampling != "balanced" or max_gap is not None):
        raise ReachcostError(f"{labels} labels are of any two states: leave sampling and max_gap at their defaults")
    if labels not in ("imagined", "mixed", "auto") and imagination is not None:
        raise ReachcostError(f"{labels} labels are not imagined: leave imagination out")


def recorded_pairs(
    record: Mapping[str, Any], latents: Latents, model: WorldModel, exclude: EvaluationSets = None
) -> Pairs:
    """Pairs sampled again by the settings in a head's record (`head.record["pairs"]`)."""
    settings = {name: record[name] for name in ("labels", "sampling", "max_gap", "directed") if name in record}
    if "trajectories" in record:
        settings["imagination"] = Imagination(**{option.name: record[option.name] for option in fields(Imagination)})
    names = {"temporal": ("rows",), "stitched": ("least", "stride")}.get(record["labels"], ("least",))
    further = {name: record[name] for name in names if name in record}
    return LabelledRecipe(**settings).pairs(
        latents,
        record["train_pairs"],
        validation=record["validation_pairs"],
        exclude=exclude,
        holdout=record.get("holdout", 0.0),
        seed=record["seed"],
        model=model,
        **further,
    )


def default_recipes(lengths: np.ndarray) -> dict[str, LabelledRecipe]:
    """The recipes that `choose_recipe` compares by default, for episodes of these lengths [E]."""
    typical = int(np.median(lengths)) if len(lengths) else 0
    gaps = sorted({gap for gap in (typical // 4, typical // 2) if gap > 1})
    return {
        "default": LabelledRecipe(),
        "paper": LabelledRecipe(Recipe.paper()),
        "mean": LabelledRecipe(Recipe(expectile=0.5)),
        "scale-3": LabelledRecipe(Recipe(scale=3.0)),
        "scale-30": LabelledRecipe(Recipe(scale=30.0)),
        **{f"gap-{gap}": LabelledRecipe(max_gap=gap) for gap in gaps},
        "asymmetric": LabelledRecipe(Recipe(head="pair"), directed=True),
    }
