"""Choose the recipe for these logs by how heads rank held-out logs.

Losses of recipes cannot be compared, since they differ in scale and expectile. The rank correlation with the fastest
logged path (`fitting/logged_audit.py`) can, since it depends on the order alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.choose import LabelledRecipe, usual_recipes
from reachcost.fitting.fit import fit
from reachcost.fitting.logged_audit import LoggedPools, TooFewGoals, logged_audit
from reachcost.fitting.pools import largest_pools, some_episodes
from reachcost.fitting.repair import HOLDOUT
from reachcost.fitting.shuffled_reference import shuffled_head
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import exclude_from
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.stats import clustered_mean
from reachcost.results.tables import ResultTable, TableRow

PAIRS = 50_000
LEVEL = 0.95
FLOORS = ("raw", "shuffled", "constant")


@dataclass(frozen=True)
class Choice:
    """The chosen recipe, and the results of all recipes.

    Attributes:
        name: Name of the chosen recipe.
        best: The chosen recipe; `repair(recipe=choice.best)` trains it.
        reason: Why it was chosen, in one sentence.
        spearman: Rank correlation with the fastest logged path to each goal [G], by recipe and floor.
        table: The same as a table, with intervals over goals.
    """

    name: str
    best: LabelledRecipe
    reason: str
    spearman: dict[str, np.ndarray] = field(repr=False)
    table: ResultTable


def choose_recipe(
    model: WorldModel | Latents,
    logs: Logs | None = None,
    recipes: Mapping[str, Recipe | LabelledRecipe] | None = None,
    *,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    pairs: int = PAIRS,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Choice:
    """Train a head with each recipe on each half of the episodes, and choose the one that ranks the other half best.

    The first recipe is the default. Another recipe is chosen only if it is better in both halves: the interval of the
    difference over goals must lie above zero, at a level corrected for the number of comparisons.

    Args:
        model: The world model, or latents of the logs.
        logs: Logs to encode; None with latents.
        recipes: Recipes to compare by name, the default first; by default `usual_recipes`.
        exclude: Evaluation sets whose episodes are used neither for training nor for the choice.
        pairs: Training pairs per epoch; fewer than for the final head are enough.
        seed: Seed of halves, pairs and heads.
        progress: True shows progress.

    >>> from reachcost import make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> recipes = {"default": Recipe(epochs=2), "mean": Recipe(epochs=2, expectile=0.5)}
    >>> found = choose_recipe(ExactTopoNav(), make_task("toponav").generate_logs(150), recipes, pairs=5000)
    >>> found.name in recipes, found.best.recipe == recipes[found.name]
    (True, True)
    """
    progress = as_progress(progress)
    latents, imagining = _encoded(model, logs, progress), None if isinstance(model, Latents) else model
    usable = np.setdiff1d(np.flatnonzero(latents.logs.lengths >= 2), exclude_from(latents.logs, exclude).episodes)
    tried = _labelled(usual_recipes(latents.logs.lengths[usable]) if recipes is None else recipes)
    halves = np.array_split(generator(seed, "choice").permutation(usable), 2)
    pools = [_pools(latents, half, seed) for half in halves]
    found: list[dict[str, np.ndarray]] = []
    for number, learned in enumerate(reversed(halves)):
        costs: dict[str, TerminalCost] = {"raw": LatentMSE(), "constant": _constant}
        training = some_episodes(latents, learned)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReachcostWarning)  # a head that learned nothing is a row of the table
            for name, labelled in tried.items():
                progress.step(f"{name} {number + 1}/2")
                drawn = labelled.pairs(
                    training, pairs, exclude=exclude, holdout=HOLDOUT, seed=seed + number, model=imagining
                )
                recipe = labelled.trained_by(drawn)
                costs[name] = HeadCost(fit(drawn, recipe, seed=seed + number, progress=progress))
                if "shuffled" not in costs:
                    costs["shuffled"] = HeadCost(shuffled_head(drawn, recipe, seed))
        rankings = logged_audit(costs, latents, pools[number])
        found.append({name: rankings[name].spearman for name in (*tried, *FLOORS)})
    judged = Judged(found, [latents.logs.episode_of(one.goals) for one in pools])
    name, reason = judged.best(list(tried))
    judged.warn_of_floors(name)
    return Choice(name, tried[name], reason, judged.whole, judged.table(next(iter(tried)), reason))


class Judged:
    """Rank correlations by goal in both halves of the logs, each with heads that were fitted on the other half.

    Args:
        halves: Rank correlations in each half, by recipe and floor [G].
        episodes: Episodes of the goals in each half [G]; goals of one episode are resampled together.

    Attributes:
        whole: Both halves [G + G], by recipe and floor.
    """

    def __init__(self, halves: Sequence[Mapping[str, np.ndarray]], episodes: Sequence[np.ndarray]) -> None:
        self._halves, self._episodes = halves, episodes
        self.whole = {name: np.concatenate([half[name] for half in halves]) for name in halves[0]}

    def best(self, recipes: Sequence[str]) -> tuple[str, str]:
        """The best recipe among those better than the first in both halves, else the first; and the reason."""
        first, *others = recipes
        level = 1 - (1 - LEVEL) / max(len(others), 1)
        better = [
            name
            for name in others
            if all(
                clustered_mean(half[name] - half[first], episodes, level=level)[0] > 0
                for half, episodes in zip(self._halves, self._episodes, strict=True)
            )
        ]
        if not better:
            return first, f"no other recipe is clearly better than {first}"
        best = max(better, key=lambda name: self.whole[name].mean())
        low, high = self._over_all(self.whole[best] - self.whole[first])
        return best, f"{best} is better than {first} in both halves of the logs, by {low:.3f} to {high:.3f} overall"

    def warn_of_floors(self, name: str) -> None:
        """Warn if the chosen recipe is not better than a floor."""
        for floor in FLOORS:
            if self._over_all(self.whole[name] - self.whole[floor])[0] <= 0:
                warnings.warn(
                    f"{name} ranks held-out logs no better than {floor} ({self.whole[name].mean():.2f} and "
                    f"{self.whole[floor].mean():.2f}), so the choice means little: log more episodes, or keep that "
                    "cost",
                    ReachcostWarning,
                    stacklevel=3,
                )
                return

    def table(self, first: str, reason: str) -> ResultTable:
        """A row for each recipe and floor."""
        rows = []
        for name, values in self.whole.items():
            metrics = {"rho_logged": values, "difference": values - self.whole[first]}
            ours = {metric: float(numbers.mean()) for metric, numbers in metrics.items()}
            interval = {metric: self._over_all(numbers) for metric, numbers in metrics.items()}
            rows.append(TableRow(name, "", len(values), ours, interval, None))
        note = (
            "ρ is the mean rank correlation with the fastest logged path to n goals, with heads fitted on the other "
            "half of the logs; intervals resample episodes of goals. raw, shuffled and constant are floors. "
            f"{reason}."
        )
        headings = {"difference": (f"minus {first}", 4)}
        return ResultTable("recipes", note, ("rho_logged", "difference"), rows, {"chosen": reason}, headings)

    def _over_all(self, values: np.ndarray) -> list[float]:
        return list(clustered_mean(values, np.concatenate(self._episodes), level=LEVEL))


def _encoded(model: WorldModel | Latents, logs: Logs | None, progress: Progress) -> Latents:
    if isinstance(model, Latents):
        if logs is not None and logs is not model.logs:
            raise ReachcostError("the latents are of other logs: give a model and logs, or latents alone")
        return model
    if logs is None:
        raise ReachcostError("there are no logs: call choose_recipe(model, logs), or choose_recipe(latents)")
    return encode_logs(model, logs, progress=progress)


def _labelled(recipes: Mapping[str, Recipe | LabelledRecipe]) -> dict[str, LabelledRecipe]:
    if not isinstance(recipes, Mapping) or not recipes:
        raise ReachcostError("there are no recipes to compare: give recipes={name: Recipe(...)}, the default first")
    for name, recipe in recipes.items():
        if not isinstance(recipe, Recipe | LabelledRecipe):
            raise ReachcostError(f"recipe {name!r} is a {type(recipe).__name__}: give a Recipe or a LabelledRecipe")
        if name in FLOORS:
            raise ReachcostError(f"recipe {name!r} has the name of a floor: give it another name")
    return {
        name: recipe if isinstance(recipe, LabelledRecipe) else LabelledRecipe(recipe)
        for name, recipe in recipes.items()
    }


def _pools(latents: Latents, judged: np.ndarray, seed: int) -> LoggedPools:
    try:
        return largest_pools(latents, judged, seed)
    except TooFewGoals as error:
        raise ReachcostError(
            f"{len(judged)} held-out episodes cannot tell recipes apart: log more episodes, or take the default recipe"
        ) from error


def _constant(terminal: Tensor, goal: Tensor) -> Tensor:
    """A cost that is 0 everywhere."""
    return terminal.new_zeros(terminal.shape[:2])
