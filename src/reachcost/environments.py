"""Gymnasium ids of the tasks; the environments themselves are imported when they are made."""

from __future__ import annotations

import gymnasium


def register_environments() -> None:
    """Make `gymnasium.make("reachcost/TopoNav-v0")` work."""
    if "reachcost/TopoNav-v0" not in gymnasium.registry:
        gymnasium.register(
            "reachcost/TopoNav-v0", entry_point="reachcost.tasks.toponav_env:TopoNavEnv", max_episode_steps=90
        )
