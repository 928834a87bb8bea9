"""The choice of labels for given logs, by measurements on the logs and never by success.

Shortest logged paths are chosen where states recur and graph nodes are small. Imagined paths are chosen where the logs
leave parts of the world unconnected or have no order. Logged times are chosen where neither can be trusted, or where a
head on logged times ranks held-out logs better: nothing else shows that a graph node reaches through a wall.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.costs.latent import HeadCost
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.fit import fit
from reachcost.fitting.labelled_recipe import LabelledRecipe
from reachcost.fitting.logged_audit import TooFewGoals, largest_pools, logged_audit, some_episodes
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.graph import SHARPEST, asymmetry
from reachcost.labels.imagined import Imagination, ImaginedPairs
from reachcost.labels.pairs import Pairs, require_latents
from reachcost.labels.stitched import MAX_UNREACHABLE, GraphPairs, StitchedPairs, logged_graph
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import WorldModel

MIN_ASYMMETRY = 0.15  # relative difference between the times of both directions from which labels are directed
# By how much a head may rank held-out logs worse than a head on logged times. Logs contain few of the paths that other
# labels are for, those that no episode took.
MARGIN = 0.02
MIN_CORRELATION = 0.5  # below it a head on logged times shows nothing, as with short episodes
# Limits of the trial heads: training episodes and as many for evaluation, pairs per epoch, imagined trajectories.
MAX_EPISODES, MAX_PAIRS, MAX_TRAJECTORIES = 1500, 50_000, 20_000


def labelled_pairs(labelled: LabelledRecipe, latents: Latents, count: int, **settings: Any) -> Pairs:
    """Pairs of a label source; where that is `auto`, `choose_labels` chooses it first."""
    if labelled.labels == "auto":
        return choose_labels(latents, count, imagination=labelled.imagination, **settings)
    return labelled.pairs(latents, count, **settings)


def choose_labels(
    latents: Latents,
    count: int = 100_000,
    *,
    model: WorldModel | None = None,
    imagination: Imagination | None = None,
    exclude: EvaluationSets = None,
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
    given: dict[str, Any] = {"exclude": exclude, "seed": seed}
    full = {**given, "holdout": holdout, "progress": progress}
    against = dict[str, list[str]]()
    compared = partial(arguments_for_logged_times, latents=latents, count=min(count, MAX_PAIRS), progress=progress)
    Exclusion(latents.logs, exclude)  # its warnings about evaluation sets must be shown, those below need not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachcostWarning)  # `against` has the warnings of the labels
        progress.step("shortest logged ways")
        stitched = _attempt(partial(StitchedPairs, latents, count, **full), "stitched", against) if timed else None
        if stitched is not None and not against["stitched"]:
            if measured_asymmetry(stitched, seed) >= MIN_ASYMMETRY:
                stitched = StitchedPairs(latents, count, **full, directed=True)
            source = partial(StitchedPairs, directed=stitched.record["directed"])
            sharp = stitched.record["sharpness"] == SHARPEST
            against["stitched"] = compared(source, trusted=sharp, **given)
            if not against["stitched"]:
                return _chosen(stitched, "logged ways can be stitched", against)
        if model is not None and (stitched is None or stitched.unconnected > MAX_UNREACHABLE):
            progress.step("imagination")
            size = imagination or Imagination()
            imagined = _attempt(
                partial(ImaginedPairs, model, latents, count, imagination=size, **full), "imagined", against
            )
            if imagined is not None and timed and not against["imagined"]:
                smaller = replace(size, trajectories=min(size.trajectories, MAX_TRAJECTORIES))
                source = partial(ImaginedPairs, model, imagination=smaller)
                against["imagined"] = compared(source, trusted=True, **given)
            if imagined is not None and not against["imagined"]:
                connects = "logs leave states unconnected that the world model connects"
                return _chosen(imagined, connects if timed else "these logs have no times", against)
    if timed:
        logged = TemporalPairs(latents, count, **given, holdout=holdout)
        return _chosen(logged, "longer ways cannot be trusted", against)
    reasons = "" if model is None else f" ({'; '.join(against['imagined'])})"
    raise ReachcostError(
        f"these logs have no times, and the world model cannot imagine labels for them{reasons}: "
        "call repair(model, logs) with more frames, or give logs with times"
    )


def arguments_for_logged_times(
    source: Callable[..., Pairs],
    latents: Latents,
    count: int,
    trusted: bool,
    progress: Progress,
    *,
    exclude: EvaluationSets,
    seed: int,
) -> list[str]:
    """Reasons to use logged times instead of a label source; empty if there are none.

    Trains a head on labels of the source and one on logged times, both on half of the episodes. The reason is that the
    second ranks the states of the other half clearly better.

    Args:
        source: Samples pairs of latents, as `TemporalPairs` does.
        latents: Encoded logs.
        count: Training pairs of an epoch.
        trusted: Whether to trust the source if there are too few logs for the comparison.
        progress: Reports the heads.
        exclude: Evaluation sets to keep out.
        seed: Seed of halves, pairs and heads.
    """
    usable = np.setdiff1d(np.flatnonzero(latents.logs.lengths >= 2), Exclusion(latents.logs, exclude).episodes)
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
            pairs = sample(training, count, exclude=exclude, holdout=0.1, seed=seed)
        except ReachcostError as error:
            return [] if trusted else [f"on half of the logs {error}"]
        heads[name] = HeadCost(fit(pairs, seed=seed, progress=progress))
    these, logged = (ranking.spearman.mean() for ranking in logged_audit(heads, latents, pools).values())
    if logged < MIN_CORRELATION or these >= logged - MARGIN:
        return []
    return [f"heads on logged times rank held-out logs better ({logged:.2f} against {these:.2f})"]


def _attempt(sample: Callable[[], GraphPairs], name: str, against: dict[str, list[str]]) -> GraphPairs | None:
    """The pairs, or None if they cannot be sampled; adds the reasons against them under their name."""
    try:
        pairs = sample()
    except ReachcostError as error:
        against[name] = [str(error)]
        return None
    against[name] = pairs.problems()
    return pairs


def measured_asymmetry(pairs: StitchedPairs, seed: int = 0) -> float:
    """Relative difference between the times of both directions, by graphs of two halves of the training episodes."""
    logs, graph = pairs.logs, pairs.graph
    learned = np.unique(logs.episode_of(np.flatnonzero(pairs.place >= 0)))
    halves = np.array_split(generator(seed, "one-way").permutation(np.setdiff1d(learned, pairs.held_out)), 2)
    rows = (logs.in_episodes(half) for half in halves)
    steps = graph.record["stride"]
    graphs = (logged_graph(logs, part, pairs.place, graph.places, steps, 1, directed=True) for part in rows)
    return asymmetry(*(half.times for half in graphs))


def _chosen(pairs: Pairs, reason: str, against: dict[str, list[str]]) -> Pairs:
    found = {name: reasons for name, reasons in against.items() if reasons}
    pairs.record["chosen"] = {"reason": reason, "against": found}
    return pairs
