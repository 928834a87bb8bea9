"""What a head reaches that cannot have learned anything: the shuffled reference."""

from __future__ import annotations

import warnings
from dataclasses import replace

from reachcost.errors import ReachcostWarning
from reachcost.fitting.fit import evaluate, fit
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import Pairs, PairSet

EPOCHS, PAIRS = 2, 20_000
"""More would only learn permuted labels by heart: there is nothing else in them."""


def shuffled_head(pairs: Pairs, recipe: Recipe | None = None, seed: int = 0) -> LearnedHead:
    """A head trained briefly on permuted labels.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.labels import TemporalPairs
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(50))
    >>> shuffled_head(TemporalPairs(latents, count=1000, validation=100)).record["pairs"]["labels"]
    'shuffled'
    """
    control, few = pairs.shuffled(), slice(0, PAIRS)
    control.train = PairSet(control.train.first[few], control.train.second[few], control.train.gap[few])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachcostWarning)  # that it is constant is what it should be
        return fit(control, replace(recipe or Recipe(), epochs=EPOCHS, fresh=False), seed=seed)


def shuffled_error(pairs: Pairs, recipe: Recipe | None = None, seed: int = 0) -> dict[str, float]:
    """Loss and RMSE of a shuffled head on the true validation labels."""
    recipe = recipe or Recipe()
    loss, rmse = evaluate(shuffled_head(pairs, recipe, seed), pairs.latents, pairs.validation, recipe.losses)
    return {"loss": loss, "rmse": rmse}
