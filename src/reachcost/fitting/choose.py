"""What there is to choose from: recipes with the rule that labels their pairs. `audits.comparison` chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np

from reachcost.core.progress import Progress
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.fitting.automatic import automatic_pairs
from reachcost.heads.recipe import Recipe
from reachcost.labels.directed import directed
from reachcost.labels.imagined import Imagination, ImaginedPairs
from reachcost.labels.pairs import Pairs
from reachcost.labels.stitched import StitchedPairs, usual_recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import WorldModel

Labels = Literal["temporal", "stitched", "imagined", "mixed", "auto"]
"""Where labels come from: times within one episode, shortest ways over all of them, what the model imagines, both of
these, or what the logs can bear."""

DEFAULT = "default"
"""The recipe that others have to beat."""


@dataclass(frozen=True)
class LabelledRecipe:
    """A recipe and the pairs that it learns from, by default of logged times; `repair(recipe=...)` takes either.

    >>> LabelledRecipe(Recipe(head="pair"), directed=True).recipe.head
    'pair'
    >>> LabelledRecipe(labels="stitched").recipe.expectile
    0.5
    """

    recipe: Recipe = field(default_factory=Recipe)
    """How the head is built and trained."""
    sampling: str = "balanced"
    """How pairs are drawn, as for `TemporalPairs`."""
    max_gap: int | None = None
    """The largest gap of a pair; by default any."""
    directed: bool = False
    """Show the earlier row as the state and the later one as the goal, never the other way round."""
    labels: Labels = "temporal"
    """Where labels come from; only temporal ones have a `sampling` and a `max_gap`."""
    imagination: Imagination | None = None
    """How much is imagined, where labels are; by default as usual."""

    def trained_by(self, pairs: Pairs) -> Recipe:
        """How a head learns from some pairs: by the recipe, or as is usual for these where labels were not settled."""
        return pairs.usual_recipe if self.labels == "auto" and self.recipe == Recipe() else self.recipe

    def __post_init__(self) -> None:
        """Refuse what is unknown or would be ignored; shortest ways have a usual recipe of their own."""
        require_type(self.recipe, Recipe, "recipe", 'give a Recipe, and where labels come from as labels="auto"')
        require_type(self.directed, bool, "directed", "give True or False")
        if self.labels not in get_args(Labels):
            raise ReachcostError(f"there are no labels {self.labels!r}: choose one of {', '.join(get_args(Labels))}")
        if self.imagination is not None and self.labels in ("temporal", "stitched"):
            raise ReachcostError(f"{self.labels} labels are of logs alone: leave imagination out")
        if self.labels == "temporal":
            return
        if self.sampling != "balanced" or self.max_gap is not None:
            raise ReachcostError(f"{self.labels} pairs are of any two states: leave sampling and max_gap alone")
        if self.labels == "auto":
            if self.directed:
                raise ReachcostError("auto labels find out whether they are directed: leave directed alone")
            return
        if self.recipe == Recipe():
            object.__setattr__(self, "recipe", usual_recipe(self.directed))

    def pairs(
        self,
        latents: Latents,
        count: int,
        *,
        exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
        holdout: float = 0.0,
        seed: int = 0,
        model: WorldModel | None = None,
        progress: Progress | bool | None = None,
    ) -> Pairs:
        """Pairs of these latents, labelled by this rule; the arguments are those of `TemporalPairs`.

        Imagined labels need the world model that the latents are of.
        """
        if self.labels == "auto":
            return automatic_pairs(
                latents,
                count,
                model=model,
                imagination=self.imagination,
                exclude=exclude,
                holdout=holdout,
                seed=seed,
                progress=progress,
            )
        if self.labels in ("imagined", "mixed"):
            if model is None:
                raise ReachcostError("imagined labels need the world model: call repair(model, logs), or give model=")
            return ImaginedPairs(
                model,
                latents,
                count,
                imagination=self.imagination,
                directed=self.directed,
                logged=self.labels == "mixed",
                exclude=exclude,
                holdout=holdout,
                seed=seed,
                progress=progress,
            )
        if self.labels == "stitched":
            return StitchedPairs(
                latents,
                count,
                directed=self.directed,
                exclude=exclude,
                holdout=holdout,
                seed=seed,
                progress=progress,
            )
        drawn = TemporalPairs(
            latents,
            count,
            sampling=self.sampling,
            max_gap=self.max_gap,
            exclude=exclude,
            holdout=holdout,
            seed=seed,
        )
        return directed(drawn) if self.directed else drawn


def pairs_again(
    record: Mapping[str, Any],
    latents: Latents,
    model: WorldModel,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
) -> Pairs:
    """Pairs drawn as those of a head were, by what its record says of them (`head.record["pairs"]`)."""
    drawn: dict[str, Any] = {"exclude": exclude, "holdout": record.get("holdout", 0.0), "seed": record["seed"]}
    count, validation = record["train_pairs"], record["validation_pairs"]
    if record["labels"] == "temporal":
        limits = {name: record.get(name) for name in ("max_gap", "rows")}
        return TemporalPairs(latents, count, validation, record["sampling"], **limits, **drawn)
    graph = {name: record[name] for name in ("least", "directed")}
    if record["labels"] == "stitched":
        return StitchedPairs(latents, count, validation, **graph, **drawn, stride=record["stride"])
    imagination = Imagination(**{option.name: record[option.name] for option in fields(Imagination)})
    mixed = record["labels"] == "mixed"
    return ImaginedPairs(model, latents, count, validation, imagination, **graph, **drawn, logged=mixed)


def usual_recipes(lengths: np.ndarray) -> dict[str, LabelledRecipe]:
    """A few recipes that differ in what worlds differ in, for episodes of these lengths [E].

    >>> ", ".join(usual_recipes(np.array([60, 80, 100])))
    'default, paper, mean, scale-3, scale-30, gap-20, gap-40, asymmetric'
    """
    typical = int(np.median(lengths)) if len(lengths) else 0
    gaps = sorted({gap for gap in (typical // 4, typical // 2) if gap > 1})
    return {
        DEFAULT: LabelledRecipe(),
        "paper": LabelledRecipe(Recipe.paper()),
        "mean": LabelledRecipe(Recipe(expectile=0.5)),
        "scale-3": LabelledRecipe(Recipe(scale=3.0)),
        "scale-30": LabelledRecipe(Recipe(scale=30.0)),
        **{f"gap-{gap}": LabelledRecipe(max_gap=gap) for gap in gaps},
        "asymmetric": LabelledRecipe(Recipe(head="pair"), directed=True),
    }
