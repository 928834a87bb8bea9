"""Which worlds the suite's tables are about, and what their records depend on."""

from __future__ import annotations

from typing import Any

from reachcost.experiments.experiment import Recording
from reachcost_paper.worlds import suite
from reachcost_paper.worlds.world import World

TUNED = ("obstacle", "one-way", "open", "rooms")
"""Worlds that the thresholds of the audit were set on."""


def worlds() -> list[World]:
    """Every world of the suite."""
    return [*suite().values()]


def world_of(name: str) -> World:
    """The world of that name."""
    return suite()[name]


def settings_of(recording: Recording, world: World) -> dict[str, Any]:
    """What a run in a world depends on, as far as it is declared."""
    declared = ("logs", "wandering", "planner", "cost", "recipe", "pairs")
    return {
        "study": recording.study.name,
        "protocol": recording.study.protocol,
        "world": world.name,
        **{name: getattr(world, name) for name in declared},
    }
