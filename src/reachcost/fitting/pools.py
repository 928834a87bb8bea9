"""Pools of logged states as large as the logs have room for, and parts of logs to learn from beside them."""

from __future__ import annotations

import numpy as np

from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.fitting.logged_audit import LoggedPools, TooFewGoals, logged_pools

SIZES = ((200, 300), (100, 300), (50, 100), (20, 50))
"""Goals and candidates of each, the largest first."""
ROWS = 10
"""Rows for each goal, and for each candidate of a goal, below which a size is not tried."""


def largest_pools(latents: Latents, episodes: np.ndarray, seed: int = 0) -> LoggedPools:
    """The first of these sizes that some episodes have room for.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=50))
    >>> largest_pools(latents, np.arange(50)).candidates.shape[0] in (20, 50, 100, 200)
    True
    """
    rows = int(latents.logs.lengths[episodes].sum())
    for goals, candidates in SIZES[:-1]:
        if max(goals, candidates) * ROWS > rows:
            continue  # to find that out by trying takes long
        try:
            return logged_pools(latents, episodes, goals, candidates, seed)
        except TooFewGoals:
            continue
    return logged_pools(latents, episodes, *SIZES[-1], seed)


def some_episodes(latents: Latents, episodes: np.ndarray) -> Latents:
    """Some episodes, without their frames: those would be read.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=50))
    >>> len(some_episodes(latents, np.arange(0, 50, 2)).logs)
    25
    """
    logs = latents.logs
    small = {name: column for name, column in logs.columns.items() if name != "pixels"}
    rows = np.flatnonzero(logs.in_episodes(episodes))
    return Latents(latents.values, Logs(small, logs.lengths), latents.model).keep(rows)
