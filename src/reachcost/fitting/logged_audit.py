"""An audit that needs logs and no simulator: does a cost order states by the fastest logged way to a goal?

For a goal, the episodes that pass by it tell how long each of their earlier states really took. A noisy policy wanders,
so one such time says little; the second-shortest among a state's neighbours tells how fast one can go from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.costs.checks import score
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.protocols import TerminalCost
from reachcost.results.ranking import Ranking, compare_rankings

VISITS = 250
"""Rows nearest to a goal, by latent distance; the episodes they belong to pass by it."""
NEIGHBOURS = 12
"""States near a candidate, itself among them, whose times are compared."""


class TooFewGoals(ReachcostError):
    """The logs do not hold enough goals with enough states that came by them."""


@dataclass(frozen=True)
class LoggedPools:
    """G goals, each with a pool of S logged states that later came by it.

    Attributes:
        goals: Log rows [G].
        candidates: Log rows [G, S].
        fastest: Steps of the fastest logged way from near the candidate to near the goal [G, S].
    """

    goals: np.ndarray
    candidates: np.ndarray
    fastest: np.ndarray


def logged_pools(
    latents: Latents, episodes: np.ndarray, goals: int = 200, candidates: int = 300, seed: int = 0
) -> LoggedPools:
    """Collect pools from some episodes, say those that no head was trained on.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=300))
    >>> logged_pools(latents, np.arange(300), goals=2, candidates=50).candidates.shape
    (2, 50)
    """
    logs = latents.logs
    rows = np.flatnonzero(logs.in_episodes(episodes))
    values, episode = latents.values[rows], logs.episode_of(rows)
    rng = generator(seed, "logged-pools")
    found: list[tuple[int, np.ndarray, np.ndarray]] = []
    for goal in rng.permutation(len(rows)):
        if len(found) == goals:
            break
        visits = _nearest(values[goal : goal + 1], values, VISITS)[0]
        visits = visits[episode[visits] != episode[goal]]
        # Of several visits of one episode the nearest one counts: it comes first.
        visits = visits[np.sort(np.unique(episode[visits], return_index=True)[1])]
        spans = zip(logs.offsets[episode[visits]].tolist(), rows[visits].tolist(), strict=True)
        before = [np.arange(first, visit) for first, visit in spans]
        past = np.concatenate([np.empty(0, np.int64), *before])
        if len(past) < max(candidates, NEIGHBOURS):
            continue
        steps = np.concatenate([visit - earlier for visit, earlier in zip(rows[visits], before, strict=True)])
        pool = rng.permutation(len(past))[:candidates]
        near = _nearest(latents.values[past[pool]], latents.values[past], NEIGHBOURS)
        found.append((int(rows[goal]), past[pool], np.partition(steps[near], 1, axis=1)[:, 1]))
    if len(found) < goals:
        raise TooFewGoals(
            f"only {len(found)} of {goals} goals have {candidates} logged states that came by them: "
            "give more episodes, or ask for fewer candidates"
        )
    return LoggedPools(*(np.stack(parts) for parts in zip(*found, strict=True)))


@torch.no_grad()
def logged_audit(costs: Mapping[str, TerminalCost], latents: Latents, pools: LoggedPools) -> dict[str, Ranking]:
    """How every cost ranks the pools; the fastest logged way, in steps, is the diagnostic cost. As `sasc`, from logs.

    >>> from reachcost import LatentMSE, encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=300))
    >>> pools = logged_pools(latents, np.arange(300), goals=2, candidates=50)
    >>> logged_audit({"raw": LatentMSE()}, latents, pools)["raw"].spearman.shape
    (2,)
    """
    candidates, goals = (latents.values[torch.from_numpy(rows)] for rows in (pools.candidates, pools.goals))
    scores = {name: score(name, cost, candidates, goals, pools.goals).numpy() for name, cost in costs.items()}
    return compare_rankings(scores, pools.fastest)


def _nearest(points: Tensor, among: Tensor, count: int) -> np.ndarray:
    """Positions [N, count] of the nearest latents, nearest first."""
    # As a matrix product, one point would cost a copy of all the others.
    mode = "donot_use_mm_for_euclid_dist" if len(points) == 1 else "use_mm_for_euclid_dist_if_necessary"
    distance = torch.cdist(points, among, compute_mode=mode)
    return distance.topk(min(count, len(among)), largest=False).indices.numpy()
