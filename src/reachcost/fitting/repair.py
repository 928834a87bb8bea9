"""The default repair, from a world model and its logs to a head: which labels, their choice for given logs, training.

Tables call it `trm-auto`. They call a head on logged times `trm`, and the paper's recipe for these `trm-paper`.

The choice depends on measurements on the logs and never on success. Shortest logged paths are chosen where states recur
and graph nodes are small. Imagined paths are chosen where the logs leave parts of the world unconnected or have no
order. Logged times are chosen where neither can be trusted, or where a head on logged times ranks held-out logs better:
nothing else shows that a graph node extends through a wall.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args

import numpy as np

from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.costs.latent import HeadCost
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning, require_type
from reachcost.fitting.fit import fit, shuffled_error, warning_for
from reachcost.fitting.logged_audit import TooFewGoals, largest_pools, logged_audit, some_episodes
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.graph import SHARPEST, asymmetry
from reachcost.labels.imagined import Imagination, ImaginedPairs
from reachcost.labels.pairs import Pairs, require_latents
from reachcost.labels.stitched import MAX_UNREACHABLE, GraphPairs, StitchedPairs, logged_graph
from reachcost.labels.temporal import TemporalPairs, directed
from reachcost.protocols import WorldModel

HOLDOUT = 0.1  # share of the episodes that are held out of training; they select the epoch
MIN_ASYMMETRY = 0.15  # relative difference between the times of both directions from which labels are directed
# Margin by which a head may rank held-out logs worse than a head on logged times: held-out logs rarely contain the
# paths that only other labels know, those that no single episode took.
MARGIN = 0.02
MIN_CORRELATION = 0.5  # below it a head on logged times shows nothing, as with short episodes
# Limits of the trial heads: episodes for training and for evaluation, pairs per epoch, imagined trajectories.
MAX_EPISODES, MAX_PAIRS, MAX_TRAJECTORIES = 1500, 50_000, 20_000

AnyPairs = TypeVar("AnyPairs", bound=GraphPairs)
Labels = Literal["temporal", "stitched", "imagined", "mixed", "auto"]
"""Label source: times within an episode, shortest paths through all episodes, paths that the model imagines, the last
two together, or the best of these that the logs support."""


@dataclass(frozen=True)
class LabelledRecipe:
    """A label source and a recipe, for `repair(recipe=...)`. By default the labels are logged times.

    Attributes:
        recipe: How the head is built and trained; `Recipe()` stands for the default recipe of the labels.
        sampling, max_gap: As for `TemporalPairs`.
        directed: Keep the times of both directions apart; temporal pairs then have the earlier row first.
        labels: Label source.
        imagination: Size of the imagination; None for the default.

    >>> LabelledRecipe(Recipe(epochs=3), labels="stitched").labels
    'stitched'
    """

    recipe: Recipe = field(default_factory=Recipe)
    sampling: str = "balanced"
    max_gap: int | None = None
    directed: bool = False
    labels: Labels = "temporal"
    imagination: Imagination | None = None
    known: ClassVar[tuple[str, ...]] = get_args(Labels)

    def __post_init__(self) -> None:
        require_type(self.recipe, Recipe, "recipe", 'give a Recipe, and the label source as labels="auto"')
        require_type(self.directed, bool, "directed", "give True or False")
        if self.labels not in self.known:
            raise ReachcostError(f"there are no labels {self.labels!r}: choose one of {', '.join(self.known)}")
        if self.labels != "temporal" and (self.sampling != "balanced" or self.max_gap is not None):
            raise ReachcostError(
                f"{self.labels} labels are of any two states: leave sampling and max_gap at their defaults"
            )
        if self.labels not in ("imagined", "mixed", "auto") and self.imagination is not None:
            raise ReachcostError(f"{self.labels} labels are not imagined: leave imagination out")
        if self.labels == "auto" and self.directed:
            raise ReachcostError("auto labels measure whether they are directed: leave directed out")

    def recipe_for(self, pairs: Pairs) -> Recipe:
        """The recipe for these pairs, by default the one of their labels."""
        return pairs.default_recipe if self.recipe == Recipe() else self.recipe

    def sample(
        self, latents: Latents, count: int, *, model: WorldModel | None = None, progress: Any = None, **further: Any
    ) -> Pairs:
        """Pairs of these latents with labels of this source; further arguments are those of the class of the pairs.

        Imagined labels need the `model` of the latents. `auto` trains trial heads to choose the labels.
        """
        if self.labels == "temporal":
            pairs = TemporalPairs(latents, count, sampling=self.sampling, max_gap=self.max_gap, **further)
            return directed(pairs) if self.directed else pairs
        further["progress"] = progress
        if self.labels == "auto":
            return choose_labels(latents, count, model=model, imagination=self.imagination, **further)
        further["directed"] = self.directed
        if self.labels == "stitched":
            return StitchedPairs(latents, count, **further)
        if model is None:
            raise ReachcostError("imagined labels need the world model: call repair(model, logs), or give model=")
        mixed = self.labels == "mixed"
        return ImaginedPairs(model, latents, count, imagination=self.imagination, logged=mixed, **further)


def recorded_pairs(record: Mapping[str, Any], latents: Latents, model: WorldModel) -> Pairs:
    """Pairs sampled again by the settings in a head's record (`head.record["pairs"]`)."""
    settings = {name: record[name] for name in ("labels", "sampling", "max_gap", "directed") if name in record}
    if "trajectories" in record:
        settings["imagination"] = Imagination(**{option.name: record[option.name] for option in fields(Imagination)})
    names = {"temporal": ("rows",), "stitched": ("least", "stride")}.get(record["labels"], ("least",))
    return LabelledRecipe(**settings).sample(
        latents,
        record["train_pairs"],
        model=model,
        validation=record["validation_pairs"],
        holdout=record.get("holdout", 0.0),
        seed=record["seed"],
        **{name: record[name] for name in names if name in record},
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


def choose_labels(
    latents: Latents,
    count: int = 100_000,
    *,
    model: WorldModel | None = None,
    imagination: Imagination | None = None,
    holdout: float = 0.1,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Pairs:
    """Pairs with the best labels that these logs support; `record["chosen"]` has the reasons.

    Trains two trial heads for each label source that passes its own checks (see `arguments_for_logged_times`). Without
    a `model` there are no imagined labels. Other arguments are as for `TemporalPairs` and `ImaginedPairs`.
    """
    require_latents(latents)
    progress, timed = as_progress(progress), bool((latents.logs.lengths >= 2).any())
    full: dict[str, Any] = {"holdout": holdout, "seed": seed, "progress": progress}
    against = dict[str, list[str]]()
    compared = partial(arguments_for_logged_times, latents, min(count, MAX_PAIRS), seed=seed, progress=progress)

    def attempt(name: str, sample: Callable[[], AnyPairs]) -> AnyPairs | None:
        try:
            pairs = sample()
        except ReachcostError as error:
            against[name] = [str(error)]
            return None
        against[name] = pairs.problems()
        return pairs

    def chosen(pairs: Pairs, reason: str) -> Pairs:
        found = {name: reasons for name, reasons in against.items() if reasons}
        pairs.record["chosen"] = {"reason": reason, "against": found}
        return pairs

    Exclusion(latents.logs, latents.excluded)  # its warnings about evaluation sets must be shown, those below need not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachcostWarning)  # `against` has the warnings of the labels
        progress.step("shortest logged paths")
        stitched = attempt("stitched", partial(StitchedPairs, latents, count, **full)) if timed else None
        if stitched is not None and not against["stitched"]:
            if measured_asymmetry(stitched, seed) >= MIN_ASYMMETRY:
                stitched = StitchedPairs(latents, count, **full, directed=True)
            source = partial(StitchedPairs, directed=stitched.record["directed"])
            against["stitched"] = compared(source, trusted=stitched.record["sharpness"] == SHARPEST)
            if not against["stitched"]:
                return chosen(stitched, "the logs support shortest paths")
        if model is not None and (stitched is None or stitched.unconnected > MAX_UNREACHABLE):
            progress.step("imagination")
            size = imagination or Imagination()
            imagined = attempt("imagined", partial(ImaginedPairs, model, latents, count, imagination=size, **full))
            if imagined is not None and timed and not against["imagined"]:
                smaller = replace(size, trajectories=min(size.trajectories, MAX_TRAJECTORIES))
                against["imagined"] = compared(partial(ImaginedPairs, model, imagination=smaller), trusted=True)
            if imagined is not None and not against["imagined"]:
                connects = "logs leave states unconnected that the world model connects"
                return chosen(imagined, connects if timed else "these logs have no times")
    if timed:
        return chosen(TemporalPairs(latents, count, holdout=holdout, seed=seed), "longer paths cannot be trusted")
    reasons = "" if model is None else f" ({'; '.join(against['imagined'])})"
    raise ReachcostError(
        f"these logs have no times, and the world model cannot imagine labels for them{reasons}: "
        "call repair(model, logs) with more frames, or give logs with times"
    )


def arguments_for_logged_times(
    latents: Latents,
    count: int,
    source: Callable[..., Pairs],
    trusted: bool,
    *,
    seed: int,
    progress: Progress,
) -> list[str]:
    """Reasons to use logged times instead of a label source; empty if there are none.

    Trains a head on `count` labels of the source, which samples as `TemporalPairs` does, and one on logged times, both
    on half of the episodes. The reason is that the second ranks the states of the other half clearly better. With too
    few logs for this comparison, a source is used if it is `trusted`.
    """
    usable = np.setdiff1d(np.flatnonzero(latents.logs.lengths >= 2), Exclusion(latents.logs, latents.excluded).episodes)
    shuffled = generator(seed, "judged-labels").permutation(usable)
    learned, ranked = np.array_split(shuffled[: 2 * MAX_EPISODES], 2)
    try:
        pools = largest_pools(latents, ranked, seed)
    except TooFewGoals:
        return [] if trusted else ["there are too few logs to tell whether places reach through walls"]
    training, heads = some_episodes(latents, learned), dict[str, HeadCost]()
    for name, sample in (("these labels", source), ("logged times", TemporalPairs)):
        progress.step(f"{name} on held-out logs")
        try:
            pairs = sample(training, count, holdout=0.1, seed=seed)
        except ReachcostError as error:
            return [] if trusted else [f"on half of the logs {error}"]
        heads[name] = HeadCost(fit(pairs, seed=seed, progress=progress))
    these, logged = (ranking.spearman.mean() for ranking in logged_audit(heads, latents, pools).values())
    if logged < MIN_CORRELATION or these >= logged - MARGIN:
        return []
    return [f"heads on logged times rank held-out logs better ({logged:.2f} against {these:.2f})"]


def measured_asymmetry(pairs: StitchedPairs, seed: int = 0) -> float:
    """Relative difference between the times of both directions, by graphs of two halves of the training episodes."""
    logs, graph = pairs.logs, pairs.graph
    learned = np.unique(logs.episode_of(np.flatnonzero(pairs.place >= 0)))
    halves = np.array_split(generator(seed, "one-way").permutation(np.setdiff1d(learned, pairs.held_out)), 2)
    rows = (logs.in_episodes(half) for half in halves)
    steps = graph.record["stride"]
    graphs = (logged_graph(logs, part, pairs.place, graph.places, steps, 1, directed=True) for part in rows)
    return asymmetry(*(half.times for half in graphs))


def repair(
    model: WorldModel | None,
    logs: Logs | Latents,
    *,
    exclude: EvaluationSets = None,
    pairs: int = 100_000,
    recipe: Recipe | LabelledRecipe | None = None,
    seed: int = 0,
    shuffled: bool = False,
    references: bool = True,
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Train a head on the time between latents of logged states; `HeadCost(head)` is the repaired terminal cost.

    Encodes the logs, chooses the labels (`auto` trains small heads for that), samples pairs, and trains the head.
    `head.record["pairs"]["chosen"]` has the reasons for the labels.

    Args:
        model: The world model. With latents it may be None, but then no labels are imagined.
        logs: Logs that the model can encode, or their latents.
        exclude: Evaluation sets to exclude, as by `Latents.without`.
        pairs: Number of training pairs per epoch.
        recipe: A `LabelledRecipe` has label source and training; a plain `Recipe` trains on logged times, as in the
            paper. None is `LabelledRecipe(labels="auto")`: the best labels that the logs support.
        shuffled: Permute the labels, for a control that must fail.
        references: Record the validation error of a head on shuffled labels, and warn if nothing shows that the head is
            better than a constant.

    >>> from reachcost import make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> task = make_task("toponav")
    >>> quick = Recipe(epochs=2)
    >>> head = repair(ExactTopoNav(), task.generate_logs(100), exclude=task.evaluation_set(), pairs=5000, recipe=quick)
    >>> head.record["pairs"]["exclusion"]["overlapping_pairs"]
    0
    """
    require_type(pairs, int, "pairs", "give a whole number")
    require_type(seed, int, "seed", "give a whole number")
    remedy = "give rc.Recipe(...) or rc.fitting.LabelledRecipe(...); rc.audits.choose_recipe compares a few"
    require_type(recipe, Recipe | LabelledRecipe | None, "recipe", remedy)
    progress = as_progress(progress)
    latents = logs if isinstance(logs, Latents) else encode_logs(cast(WorldModel, model), logs, progress=progress)
    latents = latents.without(exclude)

    labelled = LabelledRecipe(recipe) if isinstance(recipe, Recipe) else recipe or LabelledRecipe(labels="auto")
    progress.step("choice of labels" if labelled.labels == "auto" else "labels")
    sampled = labelled.sample(latents, pairs, holdout=HOLDOUT, seed=seed, model=model, progress=progress)
    training = labelled.recipe_for(sampled)

    progress.step("head")
    head = fit(sampled.shuffled() if shuffled else sampled, training, seed=seed, progress=progress)
    if references and not shuffled:
        head.record["references"]["shuffled"] = shuffled_error(sampled, training, seed)
        if problem := warning_for(head.record):
            warnings.warn(problem, ReachcostWarning, stacklevel=2)
    return head
