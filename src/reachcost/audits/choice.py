"""Which recipe for these logs? Chosen as ours was: by how heads rank held-out logs, and by nothing else.

Losses of recipes cannot be compared: each scale and each leaning has its own. The rank correlation with the fastest
logged way (`logged.py`) can, as it asks for an order alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from reachcost.base.progress import Progress, as_progress
from reachcost.base.seeding import generator
from reachcost.costs.head import HeadCost
from reachcost.costs.latent import LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.choose import LabelledRecipe, usual_recipes
from reachcost.fitting.default import HOLDOUT
from reachcost.fitting.fit import fit
from reachcost.fitting.logged import LoggedPools, TooFewGoals, logged_audit
from reachcost.fitting.pairs import exclude_from
from reachcost.fitting.pools import largest_pools, some_episodes
from reachcost.fitting.recipe import Recipe
from reachcost.fitting.shuffled import shuffled_head
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.stats import clustered_mean
from reachcost.results.tables import ResultTable, TableRow

PAIRS = 50_000
LEVEL = 0.95
FLOORS = ("raw", "shuffled", "constant")


@dataclass(frozen=True)
class Choice:
    """The recipe that was chosen, and what all of them reached.

    Attributes:
        name: The chosen one's.
        best: What it is; `repair(recipe=choice.best)` trains it.
        reason: Why it, in a sentence.
        spearman: Rank correlation with the fastest logged way to each goal [G], by recipe and floor.
        table: The same as lines, with intervals over goals.
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
    """Train a head by each recipe on each half of the episodes, and choose by how they rank the other half.

    The first recipe is the default. Another one is chosen if it is better in both halves, beyond an interval of the
    difference over goals at a level that all comparisons share: one half alone, or one head, can mislead.

    Args:
        model: The world model, or latents of the logs.
        logs: What it encodes; None with latents.
        recipes: What to compare, by name, the default first; by default `usual_recipes`.
        exclude: Evaluation sets, whose episodes neither train nor choose.
        pairs: Training pairs of an epoch; fewer than for the final head will do.
        seed: Of halves, pairs and heads.
        progress: True shows how far it is.

    >>> from reachcost import ExactTopoNav, make_task
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
            warnings.simplefilter("ignore", ReachcostWarning)  # a dead head is a line of the table
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
    """Rank correlations by goal, in the two halves of the logs, each by heads that learned from the other.

    Args:
        halves: Of each half by recipe and floor [G].
        episodes: That the goals of each half are of [G]: goals of one episode are drawn together.

    Attributes:
        whole: Both halves [G + G], by recipe and floor.
    """

    def __init__(self, halves: Sequence[Mapping[str, np.ndarray]], episodes: Sequence[np.ndarray]) -> None:
        self._halves, self._episodes = halves, episodes
        self.whole = {name: np.concatenate([half[name] for half in halves]) for name in halves[0]}

    def best(self, recipes: Sequence[str]) -> tuple[str, str]:
        """The highest of those that are better than the first in both halves; otherwise the first. And why."""
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
            return first, f"no other recipe is better than {first} beyond doubt"
        best = max(better, key=lambda name: self.whole[name].mean())
        low, high = self._over_all(self.whole[best] - self.whole[first])
        return best, f"{best} is better than {first} in both halves of the logs, by {low:.3f} to {high:.3f} in all"

    def warn_of_floors(self, name: str) -> None:
        """Say so if even the chosen recipe is no better than a floor."""
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
        """A line for each recipe and floor."""
        rows = []
        for name, values in self.whole.items():
            metrics = {"rho_logged": values, "difference": values - self.whole[first]}
            ours = {metric: float(numbers.mean()) for metric, numbers in metrics.items()}
            interval = {metric: self._over_all(numbers) for metric, numbers in metrics.items()}
            rows.append(TableRow(name, "", len(values), ours, interval, None))
        note = (
            "ρ is the mean rank correlation with the fastest logged way to n goals, by heads that learned from the "
            "other half of the logs; intervals resample episodes that goals are of. raw, shuffled and constant are "
            f"floors. {reason}."
        )
        headings = {"difference": (f"minus {first}", 4)}
        return ResultTable("recipes", note, ("rho_logged", "difference"), rows, {"chosen": reason}, headings)

    def _over_all(self, values: np.ndarray) -> list[float]:
        return list(clustered_mean(values, np.concatenate(self._episodes), level=LEVEL))


def _encoded(model: WorldModel | Latents, logs: Logs | None, progress: Progress) -> Latents:
    if isinstance(model, Latents):
        if logs is not None and logs is not model.logs:
            raise ReachcostError("these latents are not of these logs: give a model and logs, or latents alone")
        return model
    if logs is None:
        raise ReachcostError("there are no logs to choose by: choose_recipe(model, logs), or choose_recipe(latents)")
    return encode_logs(model, logs, progress=progress)


def _labelled(recipes: Mapping[str, Recipe | LabelledRecipe]) -> dict[str, LabelledRecipe]:
    if not isinstance(recipes, Mapping) or not recipes:
        raise ReachcostError("there are no recipes to compare: give recipes={name: Recipe(...)}, the default first")
    for name, recipe in recipes.items():
        if not isinstance(recipe, Recipe | LabelledRecipe):
            raise ReachcostError(f"recipe {name!r} is a {type(recipe).__name__}: give a Recipe or a LabelledRecipe")
        if name in FLOORS:
            raise ReachcostError(f"a recipe is called {name!r} as a floor of the table is: give it another name")
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
    """Knows no difference."""
    return terminal.new_zeros(terminal.shape[:2])
