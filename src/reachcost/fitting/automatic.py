"""Which labels for these logs? Decided by what is measured on them, and never by success.

Shortest logged ways, where states come again and places are small enough; what the world model imagines, where logs
leave parts of the world unconnected or have no order; logged times, where neither can be trusted, or where a head on
them ranks held-out logs better: a place that reaches through a wall, say, is seen by nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.costs.latent import HeadCost
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.fit import fit
from reachcost.fitting.logged_audit import TooFewGoals, logged_audit
from reachcost.fitting.pools import largest_pools, some_episodes
from reachcost.labels.graph import SHARPEST
from reachcost.labels.imagined import Imagination, ImaginedPairs
from reachcost.labels.pairs import Pairs, exclude_from, require_latents
from reachcost.labels.premises import asymmetry
from reachcost.labels.stitched import LOST, GraphPairs, StitchedPairs, logged_graph
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import WorldModel

ONE_WAY = 0.15
"""Difference of there and back, as a share of a way, from which labels are directed."""
MARGIN = 0.02
"""How far a head on other labels may rank held-out logs behind one on logged times: logs hold little of what such
labels are for, ways that no episode went."""
TELLING = 0.5
"""How well a head on logged times must rank held-out logs for them to say anything: short stretches do not."""
JUDGES, TRIED = 1500, 50_000
"""The most episodes that such heads learn from, and that judge them; their training pairs of an epoch."""
IMAGINED = 20_000
"""Trajectories that such a head is imagined from."""


def automatic_pairs(
    latents: Latents,
    count: int = 100_000,
    *,
    model: WorldModel | None = None,
    imagination: Imagination | None = None,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
    holdout: float = 0.1,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Pairs:
    """Pairs with the labels that these logs can bear; `record["chosen"]` says why.

    Args:
        latents: Encoded logs.
        count: Number of training pairs.
        model: The world model that they are of; without it nothing can be imagined.
        imagination: How much is imagined, where it is.
        exclude: Evaluation sets to keep out, as for `TemporalPairs`.
        holdout: Share of the episodes, or of imagined trajectories, that validation pairs are of.
        seed: Seed of places, imagination and pairs.
        progress: True shows how far it is.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> pairs = automatic_pairs(encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(100)), count=1000)
    >>> pairs.record["labels"], pairs.record["directed"]
    ('stitched', False)
    """
    require_latents(latents)
    given: dict[str, Any] = {"exclude": exclude, "seed": seed}
    progress, timed = as_progress(progress), bool((latents.logs.lengths >= 2).any())
    against = dict[str, list[str]]()
    exclude_from(latents.logs, exclude)  # warns of sets that it cannot keep out, which must not be ignored below
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachcostWarning)  # doubts are weighed here, and told
        progress.step("shortest logged ways")
        more = {**given, "holdout": holdout, "progress": progress}
        stitched = _stitched(latents, count, against, more) if timed else None
        if stitched is not None and not against["stitched"]:
            way = partial(StitchedPairs, directed=stitched.record["directed"])
            certain = stitched.record["sharpness"] == SHARPEST
            against["stitched"] = behind_logged_times(way, latents, min(count, TRIED), certain, progress, **given)
            if not against["stitched"]:
                return _because(stitched, "logged ways can be stitched", against)
        if model is not None and (stitched is None or stitched.unconnected > LOST):
            progress.step("imagination")
            imagining = imagination or Imagination()
            imagined = _imagined(model, latents, count, against, {**more, "imagination": imagining})
            if imagined is not None and timed and not against["imagined"]:
                few = replace(imagining, trajectories=min(imagining.trajectories, IMAGINED))
                way = partial(ImaginedPairs, model, imagination=few)
                against["imagined"] = behind_logged_times(way, latents, min(count, TRIED), True, progress, **given)
            if imagined is not None and not against["imagined"]:
                connects = "logs leave states unconnected that the world model connects"
                return _because(imagined, connects if timed else "these logs have no times", against)
    if timed:
        logged = TemporalPairs(latents, count, **given, holdout=holdout)
        return _because(logged, "longer ways cannot be trusted", against)
    without = "" if model is None else f" ({'; '.join(against['imagined'])})"
    raise ReachcostError(
        "these logs have no times, and labels without times are imagined by the world model, which did not do"
        f"{without}: call repair(model, logs) with more frames, or give logs with times"
    )


def behind_logged_times(
    way: Callable[..., Pairs],
    latents: Latents,
    count: int,
    certain: bool,
    progress: Progress,
    *,
    exclude: EvaluationSet | Sequence[EvaluationSet] | None,
    seed: int,
) -> list[str]:
    """What one half of the episodes says against labels, by heads on them and on logged times of the other half.

    Args:
        way: Makes pairs of latents, as `TemporalPairs` does.
        latents: Encoded logs.
        count: Training pairs of an epoch.
        certain: Whether to trust the labels where there are too few logs to tell.
        progress: Told of each head.
        exclude: Evaluation sets, whose episodes neither teach nor judge.
        seed: Of halves, pairs and heads.
    """
    usable = np.setdiff1d(np.flatnonzero(latents.logs.lengths >= 2), exclude_from(latents.logs, exclude).episodes)
    learned, judged = np.array_split(generator(seed, "judged-labels").permutation(usable)[: 2 * JUDGES], 2)
    try:
        pools = largest_pools(latents, judged, seed)
    except TooFewGoals:
        return [] if certain else ["there are too few logs to tell whether places reach through walls"]
    training, heads = some_episodes(latents, learned), dict[str, HeadCost]()
    for name, make in (("these", way), ("logged", TemporalPairs)):
        progress.step(f"{'these labels' if name == 'these' else 'logged times'} beside held-out logs")
        try:
            drawn = make(training, count, exclude=exclude, holdout=0.1, seed=seed)
        except ReachcostError as error:
            return [] if certain else [f"on half of the logs {error}"]
        heads[name] = HeadCost(fit(drawn, seed=seed, progress=progress))
    found = {name: ranking.spearman.mean() for name, ranking in logged_audit(heads, latents, pools).items()}
    if found["logged"] < TELLING or found["these"] >= found["logged"] - MARGIN:
        return []
    return [f"heads on logged times rank held-out logs better ({found['logged']:.2f} against {found['these']:.2f})"]


def _imagined(
    model: WorldModel,
    latents: Latents,
    count: int,
    against: dict[str, list[str]],
    given: Mapping[str, Any],
) -> GraphPairs | None:
    """Imagined pairs, and what speaks against them; None where nothing can be imagined."""
    try:
        pairs = ImaginedPairs(model, latents, count, **given)
    except ReachcostError as error:
        against["imagined"] = [str(error)]
        return None
    against["imagined"] = pairs.doubts()
    return pairs


def _stitched(
    latents: Latents, count: int, against: dict[str, list[str]], given: Mapping[str, Any]
) -> GraphPairs | None:
    """Stitched pairs, directed where the world is, and what speaks against them; None where none can be stitched."""
    try:
        pairs = StitchedPairs(latents, count, **given)
    except ReachcostError as error:
        against["stitched"] = [str(error)]
        return None
    against["stitched"] = pairs.doubts()
    if against["stitched"] or one_way(pairs, given["seed"]) < ONE_WAY:
        return pairs
    return StitchedPairs(latents, count, **given, directed=True)


def one_way(pairs: StitchedPairs, seed: int = 0) -> float:
    """How much of a way is the difference between there and back, by two halves of the episodes in the graph.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(100))
    >>> one_way(StitchedPairs(latents, count=1000, validation=100)) < 0.15
    True
    """
    learned = np.unique(pairs.logs.episode_of(np.flatnonzero(pairs.place >= 0)))
    halves = np.array_split(generator(seed, "one-way").permutation(np.setdiff1d(learned, pairs.held_out)), 2)
    graph = pairs.graph
    return asymmetry(
        *(
            logged_graph(
                pairs.logs,
                pairs.logs.in_episodes(half),
                pairs.place,
                graph.places,
                graph.record["stride"],
                1,
                directed=True,
            ).times
            for half in halves
        )
    )


def _because(pairs: Pairs, reason: str, against: dict[str, list[str]]) -> Pairs:
    pairs.record["chosen"] = {"reason": reason, "against": {name: doubts for name, doubts in against.items() if doubts}}
    return pairs
