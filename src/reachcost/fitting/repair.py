"""The default repair: from a world model and its logs to a head.

Tables call it `trm-auto`. They call a head on logged times `trm`, and the paper's recipe for these `trm-paper`.
"""

from __future__ import annotations

import warnings
from typing import cast

from reachcost.core.progress import Progress, as_progress
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostWarning, require_type
from reachcost.fitting.fit import fit, shuffled_error, warning_for
from reachcost.fitting.labelled_recipe import LabelledRecipe
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.protocols import WorldModel

HOLDOUT = 0.1  # share of the episodes that are held out of training; they select the epoch


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
        exclude: Evaluation sets to exclude, as for `TemporalPairs`.
        pairs: Number of training pairs per epoch.
        recipe: A `LabelledRecipe` has label source and training; a plain `Recipe` trains on logged times, as in the
            paper. None is `LabelledRecipe(labels="auto")`: the best labels that the logs support.
        seed: Seed of pairs and head.
        shuffled: Permute the labels, for a control that must fail.
        references: Record the validation error of a head on shuffled labels, and warn if nothing shows that the head is
            better than a constant.
        progress: True shows progress.

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

    labelled = LabelledRecipe(recipe) if isinstance(recipe, Recipe) else recipe or LabelledRecipe(labels="auto")
    progress.step("choice of labels" if labelled.labels == "auto" else "labels")
    given = {"exclude": exclude, "holdout": HOLDOUT, "seed": seed, "model": model, "progress": progress}
    sampled = labelled.pairs(latents, pairs, **given)
    training = labelled.recipe_for(sampled)

    progress.step("head")
    head = fit(sampled.shuffled() if shuffled else sampled, training, seed=seed, progress=progress)
    if references and not shuffled:
        head.record["references"]["shuffled"] = shuffled_error(sampled, training, seed)
        if problem := warning_for(head.record):
            warnings.warn(problem, ReachcostWarning, stacklevel=2)
    return head
