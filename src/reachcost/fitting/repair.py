"""The default repair: from a world model and its logs to a head, on the labels that these logs can bear.

Tables call it `trm-auto`, a head on logged times alone `trm`, and the paper's recipe for these `trm-paper`.
"""

from __future__ import annotations

from collections.abc import Sequence

from reachcost.core.progress import Progress, as_progress
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import require_type
from reachcost.fitting.choose import LabelledRecipe
from reachcost.fitting.fit import fit
from reachcost.fitting.references import warn_if_in_doubt
from reachcost.fitting.shuffled_reference import shuffled_error
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.protocols import WorldModel

HOLDOUT = 0.1
"""Share of the episodes that no training pair comes from; they choose the epoch."""


def repair(
    model: WorldModel,
    logs: Logs,
    *,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    pairs: int = 100_000,
    recipe: Recipe | LabelledRecipe | None = None,
    seed: int = 0,
    shuffled: bool = False,
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """Learn from logs how far apart a model's latents are in time; `HeadCost(head)` is the repaired terminal cost.

    By default labels are shortest ways over all episodes, imagined ways or logged times, whichever these logs can bear
    (`head.record["pairs"]["chosen"]` says why). The record has the head's validation error beside those of a constant
    and of a briefly trained shuffled head (`references`). Logs that are too few to tell the head from a constant are
    warned of.

    Args:
        model: The world model.
        logs: What it encodes.
        exclude: Evaluation sets to keep out of training, as for `TemporalPairs`.
        pairs: Training pairs of an epoch.
        recipe: A `LabelledRecipe`, how pairs are labelled and the head is trained; a plain `Recipe` learns from logged
            times, as in the paper. By default `LabelledRecipe(labels="auto")`.
        seed: Seed of pairs and head.
        shuffled: Permute the labels: the control that must fail.
        progress: True shows how far it is.

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
    require_recipe(recipe)
    latents = encode_logs(model, logs, progress=progress)
    head = repair_latents(
        latents,
        exclude=exclude,
        pairs=pairs,
        recipe=recipe,
        seed=seed,
        shuffled=shuffled,
        references=True,
        model=model,
        progress=progress,
    )
    warn_if_in_doubt(head)
    return head


def require_recipe(recipe: object) -> None:
    """Refuse what is neither a recipe nor None."""
    remedy = "give rc.Recipe(...) or rc.fitting.LabelledRecipe(...); rc.audits.choose_recipe compares a few"
    require_type(recipe, Recipe | LabelledRecipe | None, "recipe", remedy)


def repair_latents(
    latents: Latents,
    *,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    pairs: int = 100_000,
    recipe: Recipe | LabelledRecipe | None = None,
    seed: int = 0,
    shuffled: bool = False,
    references: bool = False,
    model: WorldModel | None = None,
    progress: Progress | bool | None = None,
) -> LearnedHead:
    """`repair` where the logs are encoded already; `references` trains the shuffled head for the record, too.

    Without the `model` nothing can be imagined, so that logs choose among the labels of logs alone.
    """
    progress = as_progress(progress)
    labelled = LabelledRecipe(recipe) if isinstance(recipe, Recipe) else recipe or LabelledRecipe(labels="auto")
    progress.step("labels")
    drawn = labelled.pairs(latents, pairs, exclude=exclude, holdout=HOLDOUT, seed=seed, model=model, progress=progress)
    trained = labelled.trained_by(drawn)
    progress.step("head")
    head = fit(drawn.shuffled() if shuffled else drawn, trained, seed=seed, progress=progress)
    if references and not shuffled:
        head.record["references"]["shuffled"] = shuffled_error(drawn, trained, seed)
    return head
