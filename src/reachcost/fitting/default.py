"""The default repair: from a world model and its logs to a head. Commands, and tables of worlds with pixels, call it
`trm`; a study may choose a recipe of its own by held-out logs, as that of TopoNav does, and then says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from reachcost.base.progress import Progress
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.fitting.fit import fit
from reachcost.fitting.recipe import Recipe
from reachcost.fitting.temporal import TemporalPairs
from reachcost.heads.base import LearnedHead
from reachcost.protocols import WorldModel

HOLDOUT = 0.1
"""Share of the episodes that no training pair comes from; they choose the epoch."""


def repair(
    model: WorldModel,
    logs: Logs,
    *,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    pairs: int = 100_000,
    recipe: Recipe | None = None,
    seed: int = 0,
    shuffled: bool = False,
    progress: Progress | None = None,
) -> LearnedHead:
    """Learn from logged times how far apart a model's latents are; `HeadCost(head)` is the repaired terminal cost.

    Args:
        model: The world model.
        logs: What it encodes.
        exclude: Evaluation sets to keep out of training, as for `TemporalPairs`.
        pairs: Training pairs of an epoch.
        recipe: How the head is trained; by default ours.
        seed: Seed of pairs and head.
        shuffled: Permute the labels: the control that must fail.
        progress: Shows how far it is.

    >>> from reachcost import ExactTopoNav, make_task
    >>> task = make_task("toponav")
    >>> quick = Recipe(scale=29, epochs=2)
    >>> head = repair(ExactTopoNav(), task.generate_logs(100), exclude=task.evaluation_set(), pairs=5000, recipe=quick)
    >>> head.record["pairs"]["exclusion"]["overlapping_pairs"]
    0
    """
    latents = encode_logs(model, logs, progress=progress)
    return repair_latents(
        latents, exclude=exclude, pairs=pairs, recipe=recipe, seed=seed, shuffled=shuffled, progress=progress
    )


def repair_latents(
    latents: Latents,
    *,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    pairs: int = 100_000,
    recipe: Recipe | None = None,
    seed: int = 0,
    shuffled: bool = False,
    progress: Progress | None = None,
) -> LearnedHead:
    """`repair` where the logs are encoded already."""
    progress = progress or Progress()
    drawn = TemporalPairs(latents, pairs, exclude=exclude, holdout=HOLDOUT, seed=seed)
    progress.step("head")
    return fit(drawn.shuffled() if shuffled else drawn, recipe, seed=seed, progress=progress)
