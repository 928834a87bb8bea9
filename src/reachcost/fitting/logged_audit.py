"""An audit without a simulator: does a cost order logged states by the fastest logged path to a goal?

The episodes that pass near a goal show how long each of their earlier states took to get there. One such time means
little, because a noisy policy wanders. The second-shortest time among neighbouring states shows how fast it can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.costs.checks import score
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.protocols import TerminalCost
from reachcost.results.stats import Ranking, compare_rankings

VISITS = 250  # rows nearest to a goal, by latent distance; their episodes pass near it
NEIGHBOURS = 12  # neighbours of a candidate, itself included, whose times are compared
POOL_SIZES = ((200, 300), (100, 300), (50, 100), (20, 50))  # goals and candidates, the largest first
ROWS = 10  # fewest rows per goal, and per candidate of a goal, for a size to be tried


class TooFewGoals(ReachcostError):
    """The logs do not hold enough goals with enough earlier states."""


@dataclass(frozen=True)
class LoggedPools:
    """G goals, each with a pool of S earlier states of episodes that pass near it."""

    goals: np.ndarray  # log rows [G]
    candidates: np.ndarray  # log rows [G, S]
    fastest: np.ndarray  # steps of the fastest logged path from near the candidate to near the goal [G, S]


def logged_pools(
    latents: Latents, episodes: np.ndarray, goals: int = 200, candidates: int = 300, seed: int = 0
) -> LoggedPools:
    """Pools of some episodes, for example those that no head was trained on."""
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
        # Of several visits of one episode only the nearest counts, which comes first.
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
            f"only {len(found)} of {goals} goals have {candidates} earlier logged states: "
            "give more episodes, or ask for fewer candidates"
        )
    return LoggedPools(*(np.stack(parts) for parts in zip(*found, strict=True)))


def largest_pools(latents: Latents, episodes: np.ndarray, seed: int = 0) -> LoggedPools:
    """Pools of the largest of four sizes that some episodes allow."""
    rows = int(latents.logs.lengths[episodes].sum())
    for sizes in POOL_SIZES[:-1]:
        if max(sizes) * ROWS <= rows:  # larger pools fail, after a long search
            with suppress(TooFewGoals):
                return logged_pools(latents, episodes, *sizes, seed)
    return logged_pools(latents, episodes, *POOL_SIZES[-1], seed)


def some_episodes(latents: Latents, episodes: np.ndarray) -> Latents:
    """Latents of some episodes, without the column `pixels`, which would have to be read."""
    logs = latents.logs
    columns = {name: column for name, column in logs.columns.items() if name != "pixels"}
    rows = np.flatnonzero(logs.in_episodes(episodes))
    return replace(latents, logs=Logs(columns, logs.lengths)).keep(rows)


@torch.no_grad()
def logged_audit(costs: Mapping[str, TerminalCost], latents: Latents, pools: LoggedPools) -> dict[str, Ranking]:
    """How every cost ranks the pools compared with the fastest logged path; like `sasc`, but from logs.

    >>> from reachcost import LatentMSE, encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=300))
    >>> pools = logged_pools(latents, np.arange(300), goals=2, candidates=50)
    >>> logged_audit({"raw": LatentMSE()}, latents, pools)["raw"].spearman.shape
    (2,)
    """
    candidates, goals = latents.values[pools.candidates], latents.values[pools.goals]
    scores = {name: score(name, cost, candidates, goals, pools.goals).numpy() for name, cost in costs.items()}
    return compare_rankings(scores, pools.fastest)


def _nearest(points: Tensor, among: Tensor, count: int) -> np.ndarray:
    """Positions [N, count] of the nearest latents, nearest first."""
    # A matrix product for one point would copy all the others.
    mode = "donot_use_mm_for_euclid_dist" if len(points) == 1 else "use_mm_for_euclid_dist_if_necessary"
    distance = torch.cdist(points, among, compute_mode=mode)
    return distance.topk(min(count, len(among)), largest=False).indices.numpy()
