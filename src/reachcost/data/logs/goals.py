"""Goals out of logs: where an episode was some steps later, the way stable-worldmodel evaluates."""

from __future__ import annotations

import numpy as np

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs.episodes import Logs
from reachcost.errors import ReachcostError


def logged_goals(
    logs: Logs,
    offset: int,
    count: int,
    seed: int = 0,
    *,
    name: str | None = None,
    world: str = "",
    budget: int | None = None,
) -> EvaluationSet:
    """Draw a random start from each of some episodes; its goal is `offset` steps later in the same episode.

    One from each, so that outcomes are independent.

    Args:
        logs: Episodes with the column `state`.
        offset: Steps from start to goal.
        count: How many to draw.
        seed: Of the draw.
        name: What to call the set; by default after the offset.
        world: The world that the logs are of, `task.world`.
        budget: Actions that an episode may execute; by default those of the task.

    >>> from reachcost import make_task
    >>> logged_goals(make_task("tworoom").generate_logs(20), offset=25, count=10)
    EvaluationSet('offset-25', 10 episodes, seed 0)
    """
    if "state" not in logs.columns:
        raise ReachcostError("these logs have no column 'state' to put the world into: goals need one")
    if offset < 1 or count < 1:
        raise ReachcostError(f"{count} goals {offset} steps later: ask for one or more of each")
    long_enough = np.flatnonzero(logs.lengths > offset)
    if len(long_enough) < count:
        raise ReachcostError(
            f"only {len(long_enough)} episodes last longer than {offset} steps, not {count}: ask for fewer or nearer"
        )
    rng = generator(seed, "logged-goals")
    episodes = np.sort(rng.choice(long_enough, count, replace=False))
    chosen = logs.offsets[episodes] + rng.integers(0, logs.lengths[episodes] - offset)
    source = np.stack([chosen, chosen + offset], axis=1)
    return EvaluationSet(
        name=f"offset-{offset}" if name is None else name,
        starts=logs.columns["state"][source[:, 0]],
        goals=logs.columns["state"][source[:, 1]],
        seed=seed,
        source_rows=source,
        source_episodes=logs.episode_of(source),
        logs_sha256=logs.fingerprint,
        world=world,
        budget=budget,
    )
