"""Which labels for these logs? Decided by what is measured on them, and never by success.

Shortest logged ways, where states come again and places are small enough; what the world model imagines, where logs
leave parts of the world unconnected or have no order; logged times, where neither can be trusted.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reachcost.base.progress import Progress, as_progress
from reachcost.base.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.imagined import Imagination, ImaginedPairs
from reachcost.fitting.pairs import Pairs, require_latents
from reachcost.fitting.premises import asymmetry
from reachcost.fitting.stitched import LOST, GraphPairs, StitchedPairs, logged_graph
from reachcost.fitting.temporal import TemporalPairs
from reachcost.protocols import WorldModel

ONE_WAY = 0.15
"""Difference of there and back, as a share of a way, from which labels are directed."""


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

    >>> from reachcost import ExactTopoNav, encode_logs, make_task
    >>> pairs = automatic_pairs(encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(300)), count=1000)
    >>> pairs.record["labels"], pairs.record["directed"]
    ('stitched', False)
    """
    require_latents(latents)
    given: dict[str, Any] = {"exclude": exclude, "holdout": holdout, "seed": seed}
    progress, timed = as_progress(progress), bool((latents.logs.lengths >= 2).any())
    against = dict[str, list[str]]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachcostWarning)  # doubts are weighed here, and told
        progress.step("shortest logged ways")
        stitched = _stitched(latents, count, against, given) if timed else None
        if stitched is not None and not against["stitched"]:
            return _because(stitched, "logged ways can be stitched", against)
        if model is not None and (stitched is None or stitched.unconnected > LOST):
            progress.step("imagination")
            imagined = _imagined(model, latents, count, against, {**given, "imagination": imagination}, progress)
            if imagined is not None and not against["imagined"]:
                connects = "logs leave states unconnected that the world model connects"
                return _because(imagined, connects if timed else "these logs have no times", against)
    if timed:
        return _because(TemporalPairs(latents, count, **given), "longer ways cannot be trusted", against)
    without = "" if model is None else f" ({'; '.join(against['imagined'])})"
    raise ReachcostError(
        "these logs have no times, and labels without times are imagined by the world model, which did not do"
        f"{without}: call repair(model, logs) with more frames, or give logs with times"
    )


def _imagined(
    model: WorldModel,
    latents: Latents,
    count: int,
    against: dict[str, list[str]],
    given: Mapping[str, Any],
    progress: Progress,
) -> GraphPairs | None:
    """Imagined pairs, and what speaks against them; None where nothing can be imagined."""
    try:
        pairs = ImaginedPairs(model, latents, count, **given, progress=progress)
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

    >>> from reachcost import ExactTopoNav, encode_logs, make_task
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(300))
    >>> one_way(StitchedPairs(latents, count=1000, validation=100)) < 0.15
    True
    """
    episode = pairs.logs.episode_of(np.arange(pairs.logs.rows))
    learned = np.unique(episode[pairs.place >= 0])
    halves = np.array_split(generator(seed, "one-way").permutation(np.setdiff1d(learned, pairs.held_out)), 2)
    graph = pairs.graph
    return asymmetry(
        *(
            logged_graph(
                pairs.logs, np.isin(episode, half), pairs.place, graph.places, graph.record["stride"], 1, directed=True
            ).times
            for half in halves
        )
    )


def _because(pairs: Pairs, reason: str, against: dict[str, list[str]]) -> Pairs:
    pairs.record["chosen"] = {"reason": reason, "against": {name: doubts for name, doubts in against.items() if doubts}}
    return pairs
