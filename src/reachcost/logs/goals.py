"""Goals out of logs: where an episode was some steps later, the way stable-worldmodel evaluates."""

from __future__ import annotations

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.evaluation import EvaluationSet
from reachcost.logs.episodes import Logs
from reachcost.seeding import generator


def logged_goals(logs: Logs, offset: int, count: int, seed: int = 0) -> EvaluationSet:
    """Draw random rows as starts; the goal of each is `offset` steps later in the same episode.

    >>> from reachcost import make_task
    >>> logged_goals(make_task("tworoom").generate_logs(20), offset=25, count=10)
    EvaluationSet('offset-25', 10 episodes, seed 0)
    """
    if "state" not in logs.columns:
        raise ReachcostError("these logs have no column 'state' to put the world into: goals need one")
    if offset < 1 or count < 1:
        raise ReachcostError(f"{count} goals {offset} steps later: ask for one or more of each")
    rows = np.arange(logs.rows)
    episode = logs.episode_of(rows)
    starts = rows[rows + offset < (logs.offsets + logs.lengths)[episode]]
    if len(starts) < count:
        raise ReachcostError(f"only {len(starts)} rows have another {offset} steps later, not {count}: ask for fewer")
    chosen = np.sort(generator(seed, "logged-goals").choice(starts, count, replace=False))
    source = np.stack([chosen, chosen + offset], axis=1)
    return EvaluationSet(
        name=f"offset-{offset}",
        starts=logs.columns["state"][source[:, 0]],
        goals=logs.columns["state"][source[:, 1]],
        seed=seed,
        episodes=np.arange(count),
        source_rows=source,
        source_episodes=logs.episode_of(source),
        logs_sha256=logs.fingerprint,
    )
