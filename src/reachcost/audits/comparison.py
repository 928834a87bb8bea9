"""Compare heads, and the recipes that train them, by how they rank held-out logs.

Losses of recipes cannot be compared, since they differ in scale and expectile. The rank correlation with the fastest
logged path (`fitting/logged_audit.py`) can, since it depends on the order alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch

from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.costs.checks import require_one_model
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning, require_type
from reachcost.fitting.fit import fit, shuffled_head
from reachcost.fitting.logged_audit import largest_pools, logged_audit, some_episodes
from reachcost.fitting.repair import HOLDOUT, LabelledRecipe, default_recipes
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.temporal import TemporalPairs, forward
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.stats import LEVEL, cluster_bootstrap, clustered_mean
from reachcost.results.tables import ResultTable, TableRow

PAIRS = 50_000  # training pairs per epoch of each recipe
ERROR_PAIRS = 10_000  # pairs on which the errors of heads are compared
FLOORS = ("raw", "shuffled", "constant")  # baselines: latent distance, a head on shuffled labels, and 0 everywhere
BASELINE, MEAN_GAP = "raw", "mean-gap"
RANKS_NOTE = (
    "ρ is the mean rank correlation with the fastest logged path to n goals, with heads fitted on the other "
    "half of the logs; intervals resample episodes of goals. raw, shuffled and constant are floors. "
)
HEADS_NOTE = (
    "ρ is the mean rank correlation with the fastest logged path to n goals; intervals resample episodes of goals. "
    f"RMSE is in steps, on {ERROR_PAIRS:,} pairs of the same logs, from the earlier row to the later one; a head with "
    "a low expectile has a larger RMSE by design. `raw` is latent distance, `mean-gap` predicts the mean gap for every "
    "pair."
)


@dataclass(frozen=True)
class Choice:
    """The chosen recipe, and the results of all recipes."""

    name: str  # name of the chosen recipe
    best: LabelledRecipe  # the chosen recipe; `repair(recipe=choice.best)` trains it
    reason: str  # why it was chosen, in one sentence
    # Rank correlation with the fastest logged path to each goal, by recipe and baseline, with intervals.
    table: ResultTable


def choose_recipe(
    model: WorldModel | None,
    logs: Logs | Latents,
    recipes: Mapping[str, Recipe | LabelledRecipe] | None = None,
    *,
    exclude: EvaluationSets = None,
    pairs: int = PAIRS,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Choice:
    """Train a head with each recipe on each half of the episodes, and choose the one that ranks the other half best.

    The first recipe is the default. Another recipe is chosen only if it is better in both halves: the interval of the
    difference over goals must lie above zero, at a level corrected for the number of comparisons.

    Args:
        model: The world model. With latents it may be None, but then no labels are imagined.
        logs: Logs that the model can encode, or their latents.
        recipes: Recipes to compare by name, the default first; by default `default_recipes`.
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
    latents = logs if isinstance(logs, Latents) else encode_logs(cast(WorldModel, model), logs, progress=progress)
    latents = latents.without(exclude)
    usable = np.setdiff1d(np.flatnonzero(latents.logs.lengths >= 2), Exclusion(latents.logs, latents.excluded).episodes)
    compared = _labelled(default_recipes(latents.logs.lengths[usable]) if recipes is None else recipes)
    halves = np.array_split(generator(seed, "choice").permutation(usable), 2)
    pools = [largest_pools(latents, half, seed) for half in halves]
    spearman: list[dict[str, np.ndarray]] = []
    for number, learned in enumerate(reversed(halves)):
        costs: dict[str, TerminalCost] = {
            "raw": LatentMSE(),
            "constant": lambda terminal, goal: terminal.new_zeros(terminal.shape[:2]),
        }
        training = some_episodes(latents, learned)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReachcostWarning)  # a head that learned nothing is a row of the table
            for name, labelled in compared.items():
                progress.step(f"{name} {number + 1}/2")
                sampled = labelled.sample(training, pairs, holdout=HOLDOUT, seed=seed + number, model=model)
                recipe = labelled.recipe_for(sampled)
                costs[name] = HeadCost(fit(sampled, recipe, seed=seed + number, progress=progress))
                if "shuffled" not in costs:
                    costs["shuffled"] = HeadCost(shuffled_head(sampled, recipe, seed))
        rankings = logged_audit(costs, latents, pools[number])
        spearman.append({name: rankings[name].spearman for name in (*compared, *FLOORS)})
    episodes = [latents.logs.episode_of(one.goals) for one in pools]
    name, reason = best_recipe(list(compared), spearman, episodes)
    both, every = _joined(spearman), np.concatenate(episodes)
    for floor in FLOORS:
        if clustered_mean(both[name] - both[floor], every)[0] <= 0:
            means = " and ".join(f"{both[cost].mean():.2f}" for cost in (name, floor))
            what = f"{name} ranks held-out logs no better than {floor} ({means}): log more episodes"
            warnings.warn(what, ReachcostWarning, stacklevel=2)
            break
    first = next(iter(compared))
    rows = [_row(cost, {"rho_logged": ours, "difference": ours - both[first]}, every) for cost, ours in both.items()]
    metrics, headings = ("rho_logged", "difference"), {"difference": (f"minus {first}", 4)}
    table = ResultTable("recipes", f"{RANKS_NOTE}{reason}.", metrics, rows, {"chosen": reason}, headings)
    return Choice(name, compared[name], reason, table)


def best_recipe(
    recipes: Sequence[str], halves: Sequence[Mapping[str, np.ndarray]], episodes: Sequence[np.ndarray]
) -> tuple[str, str]:
    """The best recipe among those better than the first in both halves, else the first; and the reason.

    Args:
        recipes: Names of the recipes.
        halves: Rank correlations [G] in each half of the logs, by recipe.
        episodes: Episodes of the goals of each half [G].
    """
    first, *better = recipes
    level = 1 - (1 - LEVEL) / max(len(better), 1)
    for half, group in zip(halves, episodes, strict=True):
        better = [name for name in better if clustered_mean(half[name] - half[first], group, level=level)[0] > 0]
    if not better:
        return first, f"no other recipe is clearly better than {first}"
    both = _joined(halves)
    best = max(better, key=lambda name: both[name].mean())
    low, high = clustered_mean(both[best] - both[first], np.concatenate(episodes))
    return best, f"{best} is better than {first} in both halves of the logs, by {low:.3f} to {high:.3f} overall"


def _joined(halves: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([half[name] for half in halves]) for name in halves[0]}


def _row(name: str, metrics: Mapping[str, np.ndarray], episodes: np.ndarray) -> TableRow:
    """Means of metrics [G] over goals, with intervals over the episodes of goals [G]."""
    ours = {metric: float(values.mean()) for metric, values in metrics.items()}
    interval = {metric: list(clustered_mean(values, episodes)) for metric, values in metrics.items()}
    return TableRow(name, "", len(episodes), ours, interval, None)


def _labelled(recipes: Mapping[str, Recipe | LabelledRecipe]) -> dict[str, LabelledRecipe]:
    if not isinstance(recipes, Mapping) or not recipes:
        raise ReachcostError("there are no recipes to compare: give recipes={name: Recipe(...)}, the default first")
    for name, recipe in recipes.items():
        require_type(recipe, Recipe | LabelledRecipe, f"recipe {name!r}", "give a Recipe or a LabelledRecipe")
        if name in FLOORS:
            raise ReachcostError(f"recipe {name!r} has the name of a baseline: give it another name")
    return {name: LabelledRecipe(recipe) if isinstance(recipe, Recipe) else recipe for name, recipe in recipes.items()}


def compare_heads(
    heads: Mapping[str, LearnedHead],
    model: WorldModel,
    logs: Logs,
    *,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> ResultTable:
    """How heads rank logs that they were not fitted on, and their errors, with intervals over episodes.

    Args:
        heads: Fitted heads by name.
        model: The world model that the heads were fitted for.
        logs: Logs that no head has seen.
        seed: Seed of the goals and pairs.
        progress: True shows progress.

    >>> from reachcost import make_task, repair
    >>> from reachcost.tasks import ExactTopoNav
    >>> task, model = make_task("toponav"), ExactTopoNav()
    >>> head = repair(model, task.generate_logs(100), pairs=5000, recipe=Recipe(epochs=2))
    >>> table = compare_heads({"mine": head}, model, task.generate_logs(60, seed=1))
    >>> [row.cost for row in table.rows]
    ['mine', 'raw', 'mean-gap']
    """
    if not isinstance(heads, Mapping) or not heads:
        raise ReachcostError("there are no heads to compare: give heads={name: head}")
    for name, head in heads.items():
        if not isinstance(head, LearnedHead) or name in (BASELINE, MEAN_GAP):
            raise ReachcostError(f"head {name!r} is a {type(head).__name__}: give a fitted head with another name")
        if head.record.get("pairs", {}).get("logs_sha256") == logs.fingerprint:
            raise ReachcostError(f"head {name!r} was fitted on the same logs: give logs that no head has seen")
    costs: dict[str, TerminalCost] = {name: HeadCost(head) for name, head in heads.items()}
    require_one_model(costs, model)
    latents = encode_logs(model, logs, progress=progress)
    pools = largest_pools(latents, np.arange(len(logs)), seed)
    rankings = logged_audit({**costs, BASELINE: LatentMSE()}, latents, pools)
    ranks = {name: ranking.spearman for name, ranking in rankings.items()}
    ranks[MEAN_GAP] = np.zeros(len(pools.goals))
    rows = {name: _row(name, {"rho_logged": found}, logs.episode_of(pools.goals)) for name, found in ranks.items()}
    pairs = forward(TemporalPairs(latents, count=1, validation=ERROR_PAIRS, seed=seed).validation)
    episodes = logs.episode_of(pairs.first.numpy())
    for name in (*heads, MEAN_GAP):
        with torch.no_grad():
            ends = latents.values[pairs.first], latents.values[pairs.second]
            predicted = heads[name](*ends) if name in heads else pairs.gap.mean().expand_as(pairs.gap)
        errors = (predicted - pairs.gap).double().square().numpy()
        columns = np.stack([errors, np.ones(len(errors))], axis=1)
        root_mean = cluster_bootstrap(columns, episodes, lambda sums: np.sqrt(sums[:, 0] / sums[:, 1]))
        ours = {**rows[name].ours, "validation_rmse": float(np.sqrt(errors.mean()))}
        interval = {**rows[name].interval, "validation_rmse": root_mean.tolist()}
        rows[name] = replace(rows[name], ours=ours, interval=interval)
    metrics = ("rho_logged", "validation_rmse")
    return ResultTable("heads", HEADS_NOTE, metrics, [*rows.values()], {"logs_sha256": logs.fingerprint})
