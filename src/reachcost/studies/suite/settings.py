"""Which worlds the suite's tables are about, and what their records depend on."""

from __future__ import annotations

from typing import Any

from reachcost.studies.experiment import Experiment
from reachcost.worlds import suite
from reachcost.worlds.world import World

TUNED = ("obstacle", "one-way", "open", "rooms")
"""Worlds that the thresholds of the audit were set on."""


def worlds() -> list[World]:
    """Every world of the suite."""
    return [*suite().values()]


def settings_of(experiment: Experiment, world: World) -> dict[str, Any]:
    """What a run in a world depends on, as far as it is declared."""
    declared = ("logs", "planner", "cost", "recipe", "pairs", "max_gap", "directed")
    return {
        "study": experiment.study.name,
        "protocol": experiment.study.protocol,
        "world": world.name,
        **{name: getattr(world, name) for name in declared},
    }
