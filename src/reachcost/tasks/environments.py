"""Gymnasium ids of the tasks; the environments themselves are imported when they are made."""

from __future__ import annotations

import gymnasium


def register_environments() -> None:
    """Make `gymnasium.make("reachcost/TopoNav-v0")` and `"reachcost/TwoRoom-v0"` work."""
    environments = {
        "reachcost/TopoNav-v0": ("reachcost.tasks.toponav.env:TopoNavEnv", 90),
        "reachcost/TwoRoom-v0": ("reachcost.tasks.tworoom.env:TwoRoomEnv", 50),
    }
    for name, (entry_point, budget) in environments.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry_point, max_episode_steps=budget)
